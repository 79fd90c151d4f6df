//! Files of the machine that tasks can see. Everything else does not exist in their root.

use std::path::{Path, PathBuf};

use crate::settings::Settings;

/// Programs, libraries and configuration that programs need. Nothing here is specific to a machine
/// or contains secrets.
pub(super) const SYSTEM_PATHS: [&str; 52] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/var/lib/ca-certificates",
    "/etc/alternatives", "/etc/apache2/mime.types", "/etc/bash.bashrc", "/etc/bashrc",
    "/etc/ca-certificates", "/etc/crypto-policies", "/etc/debian_version", "/etc/fonts",
    "/etc/gai.conf", "/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/inputrc",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.conf",
    "/etc/localtime", "/etc/lsb-release", "/etc/magic", "/etc/mailcap", "/etc/mime.types",
    "/etc/networks", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/perl",
    "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/profile", "/etc/profile.d", "/etc/protocols",
    "/etc/resolv.conf", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo",
    "/etc/timezone", "/etc/xattr.conf",
];

/// Variables whose values are paths of files or directories that programs need.
const PATH_VARIABLES: [&str; 4] = ["VIRTUAL_ENV", "PYENV_ROOT", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Files in the root of an installation that must be visible as a whole.
const INSTALLATION_MARKERS: [&str; 3] = ["pyvenv.cfg", "conda-meta", "versions"];

/// Directories next to the programs of an installation that the programs need.
const INSTALLATION_DIRS: [&str; 3] = ["lib", "lib64", "libexec"];

/// Returns the paths that the operator's settings make visible to tasks.
pub(super) fn find_visible_paths(settings: &Settings) -> Vec<PathBuf> {
    let environment = &settings.environment;
    let mut paths = settings.sandbox.readable.clone();
    paths.extend(settings.file_roots.iter().flatten().cloned());
    let variables = PATH_VARIABLES.iter().filter_map(|name| environment.get(*name));
    paths.extend(variables.map(PathBuf::from));
    let search_path = environment.get("PATH").map_or("", String::as_str);
    let search_path = search_path.split(':').map(Path::new).filter(|dir| dir.is_absolute());
    search_path.for_each(|dir| add_installation(dir, &mut paths));
    add_interpreter(Path::new(&settings.python.interpreter), &mut paths);
    paths.retain(|path| path.is_absolute() && path.parent().is_some());
    paths
}

/// Adds the installations of an interpreter that is named by its path: the one that it is in, and
/// the one that it is a link to, as in a virtual environment.
fn add_interpreter(program: &Path, paths: &mut Vec<PathBuf>) {
    if !program.is_absolute() {
        return;
    }
    let real = program.canonicalize().ok();
    for program in [Some(program.to_owned()), real].into_iter().flatten() {
        if let Some(dir) = program.parent() {
            add_installation(dir, paths);
        }
    }
}

/// Adds a directory of programs, and the libraries of the programs.
fn add_installation(dir: &Path, paths: &mut Vec<PathBuf>) {
    let Some(root) = dir.parent().filter(|root| root.parent().is_some()) else {
        paths.push(dir.to_owned());
        return;
    };
    if INSTALLATION_MARKERS.iter().any(|marker| root.join(marker).exists()) {
        paths.push(root.to_owned());
        return;
    }
    paths.push(dir.to_owned());
    paths.extend(INSTALLATION_DIRS.iter().map(|name| root.join(name)).filter(|dir| dir.is_dir()));
}

#[cfg(test)]
mod tests;
