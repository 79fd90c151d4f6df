//! The checks, one function each.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Millis, Timestamp};

use super::database::database;
use super::server::server;
use super::walls::walls;
use super::{Finding, State};
use crate::config::Config;
use crate::config::table::{HOST, PORT};
use crate::error::Error;
use crate::io::Io;
use crate::output::ago;
use crate::profile::Profiles;
use crate::roles::{Opened, Place};

/// Files that a busy server has open.
const MIN_FILES: u64 = 1024;
/// Further off than clocks that are looked after.
const MAX_SKEW: Millis = Millis::from_secs(60);

/// Looks at everything.
pub(super) fn all(
    config: &Config,
    findings: &mut Vec<Finding>,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    findings.push(settings(config));
    findings.push(profiles(io));
    let place = Place::of(config);
    match &place {
        Ok(place) => {
            findings.push(folder(place));
            match place {
                Place::Database(_) => findings.extend(database(place, config)?),
                Place::File { .. } | Place::Memory => findings.push(store(place)),
            }
        }
        Err(error) => findings.push(Finding::new("store", State::Failed, error.to_string())),
    }
    findings.push(python());
    findings.push(containers());
    findings.extend(server(config, place.as_ref().ok(), io)?);
    findings.push(port(config)?);
    findings.push(clock(place.as_ref().ok()));
    findings.push(limits());
    findings.push(walls(config, io));
    Ok(())
}

fn settings(config: &Config) -> Finding {
    match config.warnings.as_slice() {
        [] => Finding::new("settings", State::Ok, "every one can be read"),
        warnings => Finding::new("settings", State::Warning, warnings.join("; "))
            .fix("see all with: noetl config show --origin"),
    }
}

fn profiles(io: &Io<'_>) -> Finding {
    match Profiles::load(&io.env) {
        Err(error) => Finding::new("profiles", State::Failed, error.to_string()),
        Ok(profiles) => match profiles.current {
            Some(current) if !profiles.profiles.contains_key(&current) => {
                let text = format!("'{current}' is in use, and there is no such profile");
                Finding::new("profiles", State::Failed, text).fix("noetl profile use --none")
            }
            Some(current) => {
                let text = format!("{} of them, {current} in use", profiles.profiles.len());
                Finding::new("profiles", State::Ok, text)
            }
            None => {
                let text = format!("{} of them, none in use", profiles.profiles.len());
                Finding::new("profiles", State::Note, text)
            }
        },
    }
}

fn folder(place: &Place) -> Finding {
    let Some(file) = place.file() else {
        return Finding::new("data folder", State::Note, "not used by this store");
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let shown = folder.display().to_string();
    let probe = folder.join(format!(".noetl-doctor-{}", std::process::id()));
    let written = fs::write(&probe, b"x").and_then(|()| fs::remove_file(&probe));
    match written {
        Ok(()) => Finding::new("data folder", State::Ok, shown),
        Err(error) => {
            let text = format!("{shown} cannot be written to: {}", error.kind());
            Finding::new("data folder", State::Failed, text)
                .fix("change its permissions, or name another by --data-dir")
        }
    }
}

fn store(place: &Place) -> Finding {
    let shown = place.shown();
    if place.file().is_none() {
        let text = format!("{shown}: nothing of it is kept");
        return Finding::new("store", State::Note, text);
    }
    match place.look() {
        Ok(None) => {
            let text = format!("{shown} is not there yet; the first run makes it");
            Finding::new("store", State::Note, text)
        }
        Ok(Some(Opened::Held(beacon))) => {
            let by = beacon.map_or_else(String::new, |beacon| {
                format!(" by the server at {} (process {})", beacon.url, beacon.pid)
            });
            Finding::new("store", State::Ok, format!("{shown} is in use{by}"))
        }
        Ok(Some(Opened::Store(_))) => {
            let text = format!("{shown} opens, and its tables are those of this release");
            Finding::new("store", State::Ok, text)
        }
        Err(error) => {
            let found = Finding::new("store", State::Failed, error.to_string());
            found.fix("an older file is brought up to date by: noetl dev")
        }
    }
}

/// The first line that a program writes about its version.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    output.status.success().then_some(line)
}

fn python() -> Finding {
    match version("python3") {
        Some(version) => Finding::new("python3", State::Ok, version),
        None => Finding::new(
            "python3",
            State::Warning,
            "not found: python tasks cannot run here",
        )
        .fix("install Python 3 and put it into PATH"),
    }
}

fn containers() -> Finding {
    let found = ["docker", "podman"].iter().find_map(|name| version(name));
    match found {
        Some(version) => Finding::new("containers", State::Ok, version),
        None => Finding::new(
            "containers",
            State::Note,
            "neither docker nor podman: container tasks cannot run here",
        ),
    }
}

fn port(config: &Config) -> Result<Finding, Error> {
    let address = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    Ok(match TcpListener::bind(address) {
        Ok(_) => Finding::new("port", State::Ok, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let text = format!("{address} is taken, perhaps by a server");
            Finding::new("port", State::Note, text)
                .fix("a second server takes a free one with --port 0")
        }
        Err(error) => {
            let text = format!("{address} cannot be listened on: {}", error.kind());
            Finding::new("port", State::Warning, text).fix("choose another by --host and --port")
        }
    })
}

/// Ids hold the time, so a clock that is far off makes none, or makes them in the wrong order.
fn clock(place: Option<&Place>) -> Finding {
    let now = SystemClock.now();
    let is_sane = (1_704_067_200_000..3_881_520_000_000).contains(&now.as_unix_ms());
    if !is_sane {
        return Finding::new("clock", State::Failed, format!("it says {now}"))
            .fix("set the clock: ids are made from 2024 to 2093");
    }
    let written = place.and_then(Place::file).and_then(last_write);
    match written {
        Some(written) if written > now.saturating_add(MAX_SKEW) => {
            let text = format!("the database was written {}", ago(written, now));
            Finding::new("clock", State::Warning, text).fix("the clock seems to be late; set it")
        }
        _ => Finding::new("clock", State::Ok, now.to_string()),
    }
}

fn last_write(file: &Path) -> Option<Timestamp> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).ok()?).ok()
}

fn limits() -> Finding {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3));
    match soft.map(str::parse::<u64>) {
        Some(Ok(files)) if files < MIN_FILES => {
            let text = format!("a process may open {files} files, and a busy server needs more");
            Finding::new("limits", State::Warning, text).fix(format!("ulimit -n {MIN_FILES}"))
        }
        Some(Ok(files)) => Finding::new(
            "limits",
            State::Ok,
            format!("a process may open {files} files"),
        ),
        Some(Err(_)) => Finding::new(
            "limits",
            State::Ok,
            "a process may open any number of files",
        ),
        None => Finding::new("limits", State::Note, "this system does not tell them"),
    }
}
