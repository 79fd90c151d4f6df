//! Selects and reads the log to replay.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use noetl_api::Client;
use noetl_api::replay::{MIN_EVENT_ID, ReplayCutoff};
use noetl_engine::replay::{LogReader, OrderedFold, ReplayState};
use noetl_server::replay::FoldedLog;
use noetl_store::Store;
use noetl_types::{EventRecord, ExecutionId, OrganizationId, TenantId};

use super::ReplayArgs;
use crate::config::Config;
use crate::config::table::TOKEN;
use crate::connection::{ServerSelection, build_client, select_profile_server, select_server};
use crate::error::{Error, Result};
use crate::io::Io;
use crate::roles::{StoreLocation, open_file_read_only};
use crate::source::{DocumentOrigin, path_not_found_error};

/// Maximum length of a line in a log file. Events are much smaller.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// Source of a log.
pub(super) enum LogSource {
    Server(Client),
    /// A database opened read-only.
    Database(Arc<dyn Store>),
    /// A log file or standard input.
    LogFile(DocumentOrigin),
}

/// Selects the source from the command line.
pub(super) fn select_source(args: &ReplayArgs, config: &Config, io: &Io<'_>) -> Result<LogSource> {
    if let Some(log) = &args.log {
        return Ok(LogSource::LogFile(DocumentOrigin::new(log)));
    }
    if let Some(url) = &args.server {
        return Ok(LogSource::Server(build_client(url, config.get(&TOKEN)?, config)?));
    }
    if let Some(store) = &args.store {
        return open_database_file(store);
    }
    let selection = match &args.profile {
        Some(name) => select_profile_server(Some(name.clone()), io)?,
        None => select_server(config, io)?,
    };
    if let ServerSelection::Server { url, token, .. } = selection {
        return Ok(LogSource::Server(build_client(&url, token, config)?));
    }
    match StoreLocation::from_config(config)?.file_path() {
        Some(file) => open_database_file(file),
        None => Err(Error::usage("the settings name no local database to read from")
            .with_help("read from a server with --server URL")),
    }
}

fn open_database_file(file: &Path) -> Result<LogSource> {
    let text = file.to_string_lossy();
    let file = Path::new(text.strip_prefix("sqlite:").unwrap_or(&text));
    if !file.exists() {
        return Err(path_not_found_error(&DocumentOrigin::File(file.to_owned()).display_name()));
    }
    Ok(LogSource::Database(open_file_read_only(file)?))
}

/// Replays a log file line by line.
pub(super) fn replay_log_file(
    origin: &DocumentOrigin,
    execution_id: Option<ExecutionId>,
    cutoff: ReplayCutoff,
    io: &mut Io<'_>,
) -> Result<FoldedLog> {
    let lines: Box<dyn BufRead + '_> = match origin {
        DocumentOrigin::StandardInput => Box::new(BufReader::new(&mut *io.input)),
        DocumentOrigin::File(path) => {
            let file = File::open(path).map_err(|error| origin.read_error(&error))?;
            Box::new(BufReader::new(file))
        }
    };
    let mut log = LogReplay {
        reader: LogReader::for_execution(execution_id),
        fold: None,
        execution_id,
        cutoff,
        found_cutoff: false,
    };
    log.read_lines(lines, origin)?;
    log.finish_replay(&origin.display_name())
}

/// Error of a file that is not a log.
fn invalid_log_error(path: &str, reason: impl Display) -> Error {
    Error::failed(format!("'{path}' is not the log of a run: {reason}"))
        .with_help("a log contains one JSON event per line")
}

/// Error of a log without the requested run or event.
fn not_in_log_error(path: &str, what: &str) -> Error {
    Error::not_found(format!("'{path}' does not contain {what}"))
        .with_help("check the id and the log file")
}

/// A log file being replayed.
struct LogReplay {
    reader: LogReader,
    fold: Option<OrderedFold>,
    execution_id: Option<ExecutionId>,
    cutoff: ReplayCutoff,
    /// True if the event at the cutoff was found.
    found_cutoff: bool,
}

impl LogReplay {
    fn read_lines(
        &mut self,
        mut lines: Box<dyn BufRead + '_>,
        origin: &DocumentOrigin,
    ) -> Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            let mut bounded = (&mut lines).take(MAX_LINE_BYTES);
            let bytes_read = bounded.read_line(&mut line);
            if bytes_read.map_err(|error| origin.read_error(&error))? == 0 {
                return Ok(());
            }
            let record = self.reader.read(&line).map_err(|error| error.to_string());
            let applied = record.and_then(|record| match record {
                Some(record) => self.apply_record(record),
                None => Ok(()),
            });
            applied.map_err(|reason| invalid_log_error(&origin.display_name(), reason))?;
        }
    }

    /// Applies an event, unless it belongs to another run or comes after the cutoff.
    fn apply_record(&mut self, record: EventRecord) -> Result<(), String> {
        let event = &record.event;
        let execution_id = *self.execution_id.get_or_insert(event.execution_id);
        if event.execution_id != execution_id {
            return Ok(());
        }
        let cutoff_event = self.cutoff_event();
        let fold = self.fold.get_or_insert_with(|| {
            OrderedFold::new(ReplayState::new(
                event.tenant_id.clone(),
                event.organization_id.clone(),
                execution_id,
            ))
        });
        let is_after_cutoff = match self.cutoff {
            ReplayCutoff::Position(number) if number < MIN_EVENT_ID => record.seq.get() > number,
            ReplayCutoff::Time(time) => record.ingest_time > time,
            ReplayCutoff::Position(_) | ReplayCutoff::Event(_) | ReplayCutoff::End => false,
        };
        if is_after_cutoff {
            return Ok(());
        }
        if cutoff_event == Some(event.event_id.get()) {
            self.found_cutoff = true;
            fold.end_at(record.seq);
        }
        fold.push(record).map_err(|error| error.to_string())
    }

    /// Id of the event at the cutoff, if the cutoff is given as an event id.
    fn cutoff_event(&self) -> Option<i64> {
        match self.cutoff {
            ReplayCutoff::Event(id) => Some(id.get()),
            ReplayCutoff::Position(number) if number >= MIN_EVENT_ID => Some(number),
            ReplayCutoff::Position(_) | ReplayCutoff::Time(_) | ReplayCutoff::End => None,
        }
    }

    fn finish_replay(self, path: &str) -> Result<FoldedLog> {
        if let Some(id) = self.cutoff_event().filter(|_| !self.found_cutoff) {
            return Err(not_in_log_error(path, &format!("event {id}")));
        }
        let state = match (self.fold, self.execution_id) {
            (Some(fold), _) => fold.finish().map_err(|error| invalid_log_error(path, error))?,
            (None, Some(id)) => {
                ReplayState::new(TenantId::default(), OrganizationId::default(), id)
            }
            (None, None) => return Err(not_in_log_error(path, "any events")),
        };
        Ok(FoldedLog::from_state(state, false))
    }
}
