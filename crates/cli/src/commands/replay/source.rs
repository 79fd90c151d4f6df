//! Selects and reads the log to replay.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use noetl_api::Client;
use noetl_api::replay::{MIN_EVENT_ID, ReplayCutoff};
use noetl_engine::replay::{LogReader, OrderedFold, ReplayState};
use noetl_server::RuntimeError;
use noetl_server::replay::FoldedLog;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{SqliteStore, Store};
use noetl_types::{EventRecord, ExecutionId, OrganizationId, TenantId};

use super::ReplayArgs;
use crate::config::Config;
use crate::config::table::TOKEN;
use crate::error::Error;
use crate::io::Io;
use crate::roles::{StartError, StoreLocation, TargetError};
use crate::source::DocumentOrigin;
use crate::target::{self, ServerSelection};

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
pub(super) fn select_source(
    args: &ReplayArgs,
    config: &Config,
    io: &Io<'_>,
) -> Result<LogSource, Error> {
    if let Some(log) = &args.log {
        return Ok(LogSource::LogFile(DocumentOrigin::new(log)));
    }
    if let Some(url) = &args.server {
        let client = target::build_client(url, config.get(&TOKEN)?, config)?;
        return Ok(LogSource::Server(client));
    }
    if let Some(store) = &args.store {
        return open_database_file(store);
    }
    let selection = match &args.profile {
        Some(name) => target::select_profile_server(Some(name.clone()), io)?,
        None => target::select_server(config, io)?,
    };
    if let ServerSelection::Server { url, token, .. } = selection {
        return Ok(LogSource::Server(target::build_client(&url, token, config)?));
    }
    match StoreLocation::from_config(config)?.file_path() {
        Some(file) => open_database_file(file),
        None => Err(Error::NoLocalLog),
    }
}

fn open_database_file(file: &Path) -> Result<LogSource, Error> {
    let text = file.to_string_lossy();
    let file = Path::new(text.strip_prefix("sqlite:").unwrap_or(&text)).to_owned();
    let path = DocumentOrigin::File(file.clone()).display_name();
    if !file.exists() {
        return Err(Error::PathNotFound { path });
    }
    let reader = SqliteStore::open_read_only(&SqliteOptions::new(&file));
    let reader = reader.map_err(|source| StartError::DatabaseFile { path, source })?;
    Ok(LogSource::Database(Arc::new(reader)))
}

pub(super) fn replay_error(error: RuntimeError) -> Error {
    TargetError::Local(error).into()
}

/// Replays a log file line by line.
pub(super) fn replay_log_file(
    origin: &DocumentOrigin,
    execution_id: Option<ExecutionId>,
    cutoff: ReplayCutoff,
    io: &mut Io<'_>,
) -> Result<FoldedLog, Error> {
    let name = origin.display_name();
    let lines: Box<dyn BufRead + '_> = match origin {
        DocumentOrigin::StandardInput => Box::new(BufReader::new(&mut *io.input)),
        DocumentOrigin::File(path) => {
            let file = File::open(path).map_err(|source| unreadable_error(&name, source))?;
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
    log.read_lines(lines, &name)?;
    log.finish_replay(name)
}

fn unreadable_error(name: &str, source: std::io::Error) -> Error {
    let path = name.to_owned();
    match source.kind() {
        std::io::ErrorKind::NotFound => Error::PathNotFound { path },
        _ => Error::Unreadable { path, source },
    }
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
    fn read_lines(&mut self, mut lines: Box<dyn BufRead + '_>, name: &str) -> Result<(), Error> {
        let mut line = String::new();
        loop {
            line.clear();
            let mut bounded = (&mut lines).take(MAX_LINE_BYTES);
            let bytes_read = bounded.read_line(&mut line);
            if bytes_read.map_err(|source| unreadable_error(name, source))? == 0 {
                return Ok(());
            }
            let invalid_log = |reason: String| Error::InvalidLog { path: name.to_owned(), reason };
            let record = self.reader.read(&line).map_err(|error| invalid_log(error.to_string()))?;
            if let Some(record) = record {
                self.apply_record(record).map_err(invalid_log)?;
            }
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

    fn finish_replay(self, path: String) -> Result<FoldedLog, Error> {
        if let Some(id) = self.cutoff_event().filter(|_| !self.found_cutoff) {
            let what = format!("event {id}");
            return Err(Error::NotInLog { path, what });
        }
        let state = match (self.fold, self.execution_id) {
            (Some(fold), _) => fold
                .finish()
                .map_err(|error| Error::InvalidLog { path, reason: error.to_string() })?,
            (None, Some(id)) => {
                ReplayState::new(TenantId::default(), OrganizationId::default(), id)
            }
            (None, None) => {
                let what = "any events".to_owned();
                return Err(Error::NotInLog { path, what });
            }
        };
        Ok(FoldedLog::from_state(state, false))
    }
}
