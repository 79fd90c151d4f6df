//! Checks of `noetl doctor`, one function per check.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Millis, Timestamp};

use super::database::check_database;
use super::sandbox::check_sandbox;
use super::server::check_server;
use super::{CheckFinding, CheckState};
use crate::config::Config;
use crate::config::table::{HOST, PORT};
use crate::error::Error;
use crate::io::Io;
use crate::output::relative_time;
use crate::profile::ProfileFile;
use crate::roles::{OpenResult, StoreLocation};

/// Minimum limit of open files for a busy server.
const MIN_OPEN_FILES: u64 = 1024;
/// Maximum difference between synchronized clocks.
const MAX_CLOCK_SKEW: Millis = Millis::from_secs(60);

/// Runs all checks.
pub(super) fn run_checks(
    config: &Config,
    findings: &mut Vec<CheckFinding>,
    io: &mut Io<'_>,
) -> Result<(), Error> {
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
                }
            }
        }
        Err(error) => {
            findings.push(CheckFinding::new("store", CheckState::Failed, error.to_string()));
        }
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
        [] => CheckFinding::new("settings", CheckState::Ok, "all settings are valid"),
        warnings => CheckFinding::new("settings", CheckState::Warning, warnings.join("; "))
            .fix("list all settings with: noetl config show --origin"),
    }
}

fn check_profiles(io: &Io<'_>) -> CheckFinding {
    match ProfileFile::load_file(&io.env) {
        Err(error) => CheckFinding::new("profiles", CheckState::Failed, error.to_string()),
        Ok(profiles) => match profiles.current {
            Some(current) if !profiles.profiles.contains_key(&current) => {
                let text = format!("the selected profile '{current}' does not exist");
                CheckFinding::new("profiles", CheckState::Failed, text)
                    .fix("noetl profile use --none")
            }
            Some(current) => {
                let text = format!("{} defined, {current} selected", profiles.profiles.len());
                CheckFinding::new("profiles", CheckState::Ok, text)
            }
            None => {
                let text = format!("{} defined, none selected", profiles.profiles.len());
                CheckFinding::new("profiles", CheckState::Note, text)
            }
        },
    }
}

fn check_data_dir(location: &StoreLocation) -> CheckFinding {
    let Some(file) = location.file_path() else {
        return CheckFinding::new("data directory", CheckState::Note, "not used by this store");
    };
    let dir = file.parent().unwrap_or(Path::new("."));
    let name = dir.display().to_string();
    let probe = dir.join(format!(".noetl-doctor-{}", std::process::id()));
    let result = fs::write(&probe, b"x").and_then(|()| fs::remove_file(&probe));
    match result {
        Ok(()) => CheckFinding::new("data directory", CheckState::Ok, name),
        Err(error) => {
            let text = format!("{name} is not writable: {}", error.kind());
            CheckFinding::new("data directory", CheckState::Failed, text)
                .fix("change its permissions, or choose another with --data-dir")
        }
    }
}

fn check_store(location: &StoreLocation) -> CheckFinding {
    let name = location.display_name();
    if location.file_path().is_none() {
        let text = format!("{name}: data is not persisted");
        return CheckFinding::new("store", CheckState::Note, text);
    }
    match location.find_server_or_open() {
        Ok(None) => {
            let text = format!("{name} does not exist yet; the first run creates it");
            CheckFinding::new("store", CheckState::Note, text)
        }
        Ok(Some(OpenResult::InUse(lock_file))) => {
            let user = lock_file.map_or_else(String::new, |lock_file| {
                format!(" by the server at {} (process {})", lock_file.url, lock_file.pid)
            });
            CheckFinding::new("store", CheckState::Ok, format!("{name} is in use{user}"))
        }
        Ok(Some(OpenResult::Store(_))) => {
            let text = format!("{name} can be opened; its schema is up to date");
            CheckFinding::new("store", CheckState::Ok, text)
        }
        Err(error) => {
            let finding = CheckFinding::new("store", CheckState::Failed, error.to_string());
            finding.fix("update an older file with: noetl dev")
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
        Some(version) => CheckFinding::new("python3", CheckState::Ok, version),
        None => CheckFinding::new(
            "python3",
            CheckState::Warning,
            "not found: python tasks cannot run here",
        )
        .fix("install Python 3 and add it to PATH"),
    }
}

fn check_containers() -> CheckFinding {
    let version = ["docker", "podman"].iter().find_map(|name| program_version(name));
    match version {
        Some(version) => CheckFinding::new("containers", CheckState::Ok, version),
        None => CheckFinding::new(
            "containers",
            CheckState::Note,
            "neither docker nor podman found: container tasks cannot run here",
        ),
    }
}

fn check_port(config: &Config) -> Result<CheckFinding, Error> {
    let address = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    Ok(match TcpListener::bind(address) {
        Ok(_) => CheckFinding::new("port", CheckState::Ok, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text = format!("{address} is already in use, possibly by a server");
            CheckFinding::new("port", CheckState::Note, text)
                .fix("start a second server on a free port with --port 0")
        }
        Err(error) => {
            let text = format!("cannot listen on {address}: {}", error.kind());
            CheckFinding::new("port", CheckState::Warning, text)
                .fix("choose another with --host and --port")
        }
    })
}

/// Checks the system clock. Ids contain the time, so a clock that is far off produces invalid or
/// wrongly ordered ids.
fn check_clock(location: Option<&StoreLocation>) -> CheckFinding {
    let now = SystemClock.now();
    let is_sane = (1_704_067_200_000..3_881_520_000_000).contains(&now.as_unix_ms());
    if !is_sane {
        return CheckFinding::new(
            "clock",
            CheckState::Failed,
            format!("the system clock is at {now}"),
        )
        .fix("set the clock; ids require a time between 2024 and 2093");
    }
    let last_write = location.and_then(StoreLocation::file_path).and_then(last_modified);
    match last_write {
        Some(last_write) if last_write > now.saturating_add(MAX_CLOCK_SKEW) => {
            let text = format!("the database was written {}", relative_time(last_write, now));
            CheckFinding::new("clock", CheckState::Warning, text)
                .fix("the clock seems to be behind; set it")
        }
        _ => CheckFinding::new("clock", CheckState::Ok, now.to_string()),
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
            CheckFinding::new("limits", CheckState::Warning, text)
                .fix(format!("ulimit -n {MIN_OPEN_FILES}"))
        }
        Some(Ok(files)) => {
            CheckFinding::new("limits", CheckState::Ok, format!("a process can open {files} files"))
        }
        Some(Err(_)) => {
            CheckFinding::new("limits", CheckState::Ok, "the number of open files is not limited")
        }
        None => {
            CheckFinding::new("limits", CheckState::Note, "this system does not report its limits")
        }
    }
}
