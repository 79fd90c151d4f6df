//! Where the log of a run is read from.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use noetl_api::Client;
use noetl_api::replay::{Cut, LEAST_EVENT_ID};
use noetl_engine::replay::{InOrder, LogReader, ReplayState};
use noetl_server::RuntimeError;
use noetl_server::replay::Folded;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{SqliteStore, Store};
use noetl_types::{EventRecord, ExecutionId, OrganizationId, TenantId};

use super::ReplayArgs;
use crate::config::Config;
use crate::config::table::TOKEN;
use crate::error::Error;
use crate::io::Io;
use crate::reach::{self, Meant};
use crate::roles::{HostError, Place, StartError};
use crate::source::Origin;

/// The longest line of a log: events are smaller by far.
const MAX_LINE: u64 = 8 << 20;

/// Where a log is read from.
pub(super) enum Source {
    /// A server.
    Server(Client),
    /// A database that is only looked at.
    File(Arc<dyn Store>),
    /// A text.
    Log(Origin),
}

/// What the command line means.
pub(super) fn of(args: &ReplayArgs, config: &Config, io: &Io<'_>) -> Result<Source, Error> {
    if let Some(log) = &args.log {
        return Ok(Source::Log(Origin::new(log)));
    }
    if let Some(url) = &args.server {
        let client = reach::client_of(url, config.get(&TOKEN)?, config)?;
        return Ok(Source::Server(client));
    }
    if let Some(store) = &args.store {
        return open(store);
    }
    let meant = match &args.profile {
        Some(name) => reach::of_profile(Some(name.clone()), io)?,
        None => reach::meant(config, io)?,
    };
    if let Meant::Server { url, token, .. } = meant {
        return Ok(Source::Server(reach::client_of(&url, token, config)?));
    }
    match Place::of(config)?.file() {
        Some(file) => open(file),
        None => Err(Error::NoLocalLog),
    }
}

fn open(file: &Path) -> Result<Source, Error> {
    let text = file.to_string_lossy();
    let file = Path::new(text.strip_prefix("sqlite:").unwrap_or(&text)).to_owned();
    let path = Origin::File(file.clone()).name();
    if !file.exists() {
        return Err(Error::Missing { path });
    }
    let reader = SqliteStore::open_to_read(&SqliteOptions::new(&file));
    let reader = reader.map_err(|source| StartError::File { path, source })?;
    Ok(Source::File(Arc::new(reader)))
}

pub(super) fn refused(error: RuntimeError) -> Error {
    HostError::Here(error).into()
}

/// Folds a log that is a text, line by line.
pub(super) fn fold_log(
    origin: &Origin,
    execution_id: Option<ExecutionId>,
    cut: Cut,
    io: &mut Io<'_>,
) -> Result<Folded, Error> {
    let name = origin.name();
    let lines: Box<dyn BufRead + '_> = match origin {
        Origin::Input => Box::new(BufReader::new(&mut *io.input)),
        Origin::File(path) => {
            let file = File::open(path).map_err(|source| unreadable(&name, source))?;
            Box::new(BufReader::new(file))
        }
    };
    let mut log = Log {
        reader: LogReader::of(execution_id),
        fold: None,
        wanted: execution_id,
        cut,
        is_met: false,
    };
    log.read(lines, &name)?;
    log.finish(name)
}

fn unreadable(name: &str, source: std::io::Error) -> Error {
    let path = name.to_owned();
    match source.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { path },
        _ => Error::Unreadable { path, source },
    }
}

/// A log on its way into the fold.
struct Log {
    reader: LogReader,
    fold: Option<InOrder>,
    wanted: Option<ExecutionId>,
    cut: Cut,
    /// Whether the event that the cut names was found.
    is_met: bool,
}

impl Log {
    fn read(&mut self, mut lines: Box<dyn BufRead + '_>, name: &str) -> Result<(), Error> {
        let mut line = String::new();
        loop {
            line.clear();
            let mut bounded = (&mut lines).take(MAX_LINE);
            let read = bounded.read_line(&mut line);
            if read.map_err(|source| unreadable(name, source))? == 0 {
                return Ok(());
            }
            let bad = |reason: String| Error::BadLog {
                path: name.to_owned(),
                reason,
            };
            let record = self
                .reader
                .read(&line)
                .map_err(|error| bad(error.to_string()))?;
            if let Some(record) = record {
                self.take(record).map_err(bad)?;
            }
        }
    }

    /// Folds an event, unless it is another run's or lies behind the cut.
    fn take(&mut self, record: EventRecord) -> Result<(), String> {
        let event = &record.event;
        let wanted = *self.wanted.get_or_insert(event.execution_id);
        if event.execution_id != wanted {
            return Ok(());
        }
        let cut_event = self.cut_event();
        let fold = self.fold.get_or_insert_with(|| {
            InOrder::new(ReplayState::new(
                event.tenant_id.clone(),
                event.organization_id.clone(),
                wanted,
            ))
        });
        let is_behind = match self.cut {
            Cut::Position(number) if number < LEAST_EVENT_ID => record.seq.get() > number,
            Cut::Time(time) => record.ingest_time > time,
            Cut::Position(_) | Cut::Event(_) | Cut::End => false,
        };
        if is_behind {
            return Ok(());
        }
        if cut_event == Some(event.event_id.get()) {
            self.is_met = true;
            fold.end_at(record.seq);
        }
        fold.push(record).map_err(|error| error.to_string())
    }

    /// The event that the log is cut at, where that is told by its id.
    fn cut_event(&self) -> Option<i64> {
        match self.cut {
            Cut::Event(id) => Some(id.get()),
            Cut::Position(number) if number >= LEAST_EVENT_ID => Some(number),
            Cut::Position(_) | Cut::Time(_) | Cut::End => None,
        }
    }

    fn finish(self, path: String) -> Result<Folded, Error> {
        if let Some(id) = self.cut_event().filter(|_| !self.is_met) {
            let what = format!("event {id}");
            return Err(Error::NotInLog { path, what });
        }
        let state = match (self.fold, self.wanted) {
            (Some(fold), _) => fold.finish().map_err(|error| Error::BadLog {
                path,
                reason: error.to_string(),
            })?,
            (None, Some(id)) => {
                ReplayState::new(TenantId::default(), OrganizationId::default(), id)
            }
            (None, None) => {
                let what = "any event".to_owned();
                return Err(Error::NotInLog { path, what });
            }
        };
        Ok(Folded::of(state, false))
    }
}
