//! Checks of `noetl doctor`, one function per check.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use noetl_server::{Clock as _, SystemClock};
use noetl_store::{FailedPrivilegeCheck, PrivilegeCheck};
use noetl_types::{ByteSize, Millis, Timestamp};

use super::sandbox::check_sandbox;
use super::server::check_server;
use super::{CheckFinding, failed, note, ok, warning};
use crate::config::Config;
use crate::config::table::{HOST, PORT};
use crate::error::{Result, error_chain};
use crate::io::Io;
use crate::output::relative_time;
use crate::profile::ProfileFile;
use crate::render::text_layout::pluralize;
use crate::roles::{self, OpenResult, StoreLocation};

/// Minimum limit of open files for a busy server.
const MIN_OPEN_FILES: u64 = 1024;
/// Size of a database file from which retention is suggested.
const LARGE_LOG_BYTES: u64 = 1 << 30;
/// Maximum difference between synchronized clocks.
const MAX_CLOCK_SKEW: Millis = Millis::from_secs(60);

/// Runs all checks.
pub(super) fn run_checks(
    config: &Config,
    findings: &mut Vec<CheckFinding>,
    io: &mut Io<'_>,
) -> Result<()> {
    findings.push(check_settings(config));
    findings.push(check_profiles(io));
    let location = StoreLocation::from_config(config);
    match &location {
        Ok(location) => {
            findings.push(check_data_dir(location));
            match location {
                StoreLocation::Database(_) => findings.extend(check_database(location, config)?),
                StoreLocation::File { .. } | StoreLocation::Memory => {
                    findings.push(check_store(location));
                    findings.extend(check_log_growth(location));
                }
            }
        }
        Err(error) => findings.push(failed("store", error.to_string())),
    }
    findings.push(check_python());
    findings.push(check_containers());
    findings.extend(check_server(config, location.as_ref().ok(), io)?);
    findings.push(check_port(config)?);
    findings.push(check_clock(location.as_ref().ok()));
    findings.push(check_limits());
    findings.push(check_sandbox(config, io));
    Ok(())
}

fn check_settings(config: &Config) -> CheckFinding {
    match config.warnings.as_slice() {
        [] => ok("settings", "all settings are valid"),
        warnings => warning("settings", warnings.join("; "))
            .fix("list all settings with: noetl config show --origin"),
    }
}

fn check_profiles(io: &Io<'_>) -> CheckFinding {
    match ProfileFile::load_file(&io.env) {
        Err(error) => failed("profiles", error.to_string()),
        Ok(profiles) => match profiles.current {
            Some(current) if !profiles.profiles.contains_key(&current) => {
                let text = format!("the selected profile '{current}' does not exist");
                failed("profiles", text).fix("noetl profile use --none")
            }
            Some(current) => {
                let text = format!("{} defined, {current} selected", profiles.profiles.len());
                ok("profiles", text)
            }
            None => {
                let text = format!("{} defined, none selected", profiles.profiles.len());
                note("profiles", text)
            }
        },
    }
}

fn check_data_dir(location: &StoreLocation) -> CheckFinding {
    let Some(file) = location.file_path() else {
        return note("data directory", "not used by this store");
    };
    let dir = file.parent().unwrap_or(Path::new("."));
    let name = dir.display().to_string();
    let probe = dir.join(format!(".noetl-doctor-{}", std::process::id()));
    let result = fs::write(&probe, b"x").and_then(|()| fs::remove_file(&probe));
    match result {
        Ok(()) => match location.permission_warnings().as_slice() {
            [] => ok("data directory", name),
            warnings => warning("data directory", warnings.join("; ")),
        },
        Err(error) => {
            let text = format!("{name} is not writable: {}", error.kind());
            failed("data directory", text)
                .fix("change its permissions, or choose another with --data-dir")
        }
    }
}

fn check_store(location: &StoreLocation) -> CheckFinding {
    let name = location.display_name();
    if location.file_path().is_none() {
        let text = format!("{name}: data is not persisted");
        return note("store", text);
    }
    match location.find_server_or_open() {
        Ok(None) => {
            let text = format!("{name} does not exist yet; the first run creates it");
            note("store", text)
        }
        Ok(Some(OpenResult::InUse(lock_file))) => {
            let user = lock_file.map_or_else(String::new, |lock_file| {
                format!(" by the server at {} (process {})", lock_file.url, lock_file.pid)
            });
            ok("store", format!("{name} is in use{user}"))
        }
        Ok(Some(OpenResult::Store(_))) => {
            let text = format!("{name} can be opened; its schema is up to date");
            ok("store", text)
        }
        Err(error) => {
            let finding = failed("store", error.to_string());
            finding.fix("update an older file with: noetl dev")
        }
    }
}

/// Reports the size of the database file and its growth per day.
fn check_log_growth(location: &StoreLocation) -> Option<CheckFinding> {
    let file = fs::metadata(location.file_path()?).ok()?;
    let elapsed = file.created().ok()?.elapsed().ok()?;
    let days = elapsed.as_secs().div_ceil(24 * 3600).max(1);
    let mut wal = location.file_path()?.as_os_str().to_owned();
    wal.push("-wal");
    let bytes = file.len() + fs::metadata(wal).map_or(0, |wal| wal.len());
    let (size, daily) = (ByteSize::from_bytes(bytes), ByteSize::from_bytes(bytes / days));
    let age = pluralize(usize::try_from(days).unwrap_or(usize::MAX), "day");
    let text = format!("{size} in {age}, about {daily} a day");
    let finding = note("log growth", text);
    Some(if bytes < LARGE_LOG_BYTES {
        finding
    } else {
        finding.fix("show what can be deleted with: noetl retention plan --events 90")
    })
}

/// Connects to the database read-only and checks it.
fn check_database(location: &StoreLocation, config: &Config) -> Result<Vec<CheckFinding>> {
    let runtime = roles::build_tokio_runtime(config, 1)?;
    let findings = runtime.block_on(inspect_database_server(location));
    Ok(findings.unwrap_or_else(|error| vec![CheckFinding::from_error("store", &error)]))
}

async fn inspect_database_server(location: &StoreLocation) -> Result<Vec<CheckFinding>> {
    let name = location.display_name();
    if let Some(schema) = location.schema_version().await?.filter(|schema| schema.is_outdated()) {
        let text = format!(
            "{name} is reachable; its tables are at schema {} of {}",
            schema.version, schema.newest
        );
        let fix = "the next server start migrates them, or run: noetl db migrate";
        return Ok(vec![note("store", text).fix(fix)]);
    }
    let store = location.open_read_only().await?;
    let text = format!("{name} is reachable; its schema is up to date");
    let log_finding = match store.list_failed_privilege_checks().await {
        Ok(missing) => check_log_privileges(&missing, location.has_separate_owner()),
        Err(error) => {
            let text =
                format!("cannot determine who can change the event log: {}", error_chain(&error));
            warning("log", text)
        }
    };
    Ok(vec![ok("store", text), log_finding])
}

/// Reports missing protections of the event log. A missing protection is a warning if a separate
/// owner role is configured.
fn check_log_privileges(missing: &[FailedPrivilegeCheck], has_owner: bool) -> CheckFinding {
    let is_modifiable = missing.iter().any(|failed| failed.check == PrivilegeCheck::AppendOnly);
    let descriptions: Vec<String> = missing.iter().map(FailedPrivilegeCheck::to_string).collect();
    let not_enforced = format!("not enforced: {}", descriptions.join(", "));
    match (is_modifiable, has_owner) {
        (true, true) => warning("log", not_enforced).fix(
            "transfer the tables to the role of NOETL_OWNER_DSN (REASSIGN OWNED), or revoke these \
             privileges from the server's role",
        ),
        (true, false) => note("log", not_enforced)
            .fix("set NOETL_OWNER_DSN so that another role owns the tables"),
        (false, _) => {
            let text = format!("the server can only append to it; {not_enforced}");
            note("log", text)
        }
    }
}

/// First line of the output of `program --version`.
fn program_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    output.status.success().then_some(line)
}

fn check_python() -> CheckFinding {
    match program_version("python3") {
        Some(version) => ok("python3", version),
        None => warning("python3", "not found: python tasks cannot run here")
            .fix("install Python 3 and add it to PATH"),
    }
}

fn check_containers() -> CheckFinding {
    let version = ["docker", "podman"].iter().find_map(|name| program_version(name));
    match version {
        Some(version) => ok("containers", version),
        None => {
            note("containers", "neither docker nor podman found: container tasks cannot run here")
        }
    }
}

fn check_port(config: &Config) -> Result<CheckFinding> {
    let address = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    Ok(match TcpListener::bind(address) {
        Ok(_) => ok("port", format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text = format!("{address} is already in use, possibly by a server");
            note("port", text).fix("start a second server on a free port with --port 0")
        }
        Err(error) => {
            let text = format!("cannot listen on {address}: {}", error.kind());
            warning("port", text).fix("choose another with --host and --port")
        }
    })
}

/// Checks the system clock. Ids contain the time, so a clock that is far off produces invalid or
/// wrongly ordered ids.
fn check_clock(location: Option<&StoreLocation>) -> CheckFinding {
    let now = SystemClock.now();
    let is_sane = (1_704_067_200_000..3_881_520_000_000).contains(&now.as_unix_ms());
    if !is_sane {
        return failed("clock", format!("the system clock is at {now}"))
            .fix("set the clock; ids require a time between 2024 and 2093");
    }
    let last_write = location.and_then(StoreLocation::file_path).and_then(last_modified);
    match last_write {
        Some(last_write) if last_write > now.saturating_add(MAX_CLOCK_SKEW) => {
            let text = format!("the database was written {}", relative_time(last_write, now));
            warning("clock", text).fix("the clock seems to be behind; set it")
        }
        _ => ok("clock", now.to_string()),
    }
}

fn last_modified(file: &Path) -> Option<Timestamp> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Timestamp::from_unix_ms(i64::try_from(since_epoch.as_millis()).ok()?).ok()
}

fn check_limits() -> CheckFinding {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files"));
    let soft_limit = line.and_then(|line| line.split_whitespace().nth(3));
    match soft_limit.map(str::parse::<u64>) {
        Some(Ok(files)) if files < MIN_OPEN_FILES => {
            let text = format!("a process can open {files} files; a busy server needs more");
            warning("limits", text).fix(format!("ulimit -n {MIN_OPEN_FILES}"))
        }
        Some(Ok(files)) => ok("limits", format!("a process can open {files} files")),
        Some(Err(_)) => ok("limits", "the number of open files is not limited"),
        None => note("limits", "this system does not report its limits"),
    }
}

#[cfg(test)]
mod tests;
