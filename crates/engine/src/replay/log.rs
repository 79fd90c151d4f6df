//! A log as text: one event a line, as the API shows it, as streams and exports carry it, or as
//! another system wrote it.
//!
//! What can be understood is: absent types and statuses, times of several forms, ids as texts or
//! numbers. A line that cannot be is named, with what is wrong with it.

use noetl_types::json::parse;
use noetl_types::record::{Arrival, EventRecord, Seq, read_projected};
use noetl_types::{CommandId, ExecutionId, Json, JsonMap, Timestamp};

/// Reads a log line by line.
#[derive(Debug, Clone, Default)]
pub struct LogReader {
    /// The execution of events that name none: that of the first one that does.
    execution_id: Option<ExecutionId>,
    lines: u64,
    events: i64,
    /// Whether the events tell their places; where they do not, their order in the text counts.
    numbering: Option<Numbering>,
    /// When the newest event so far was recorded.
    recorded: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbering {
    Told,
    Counted,
}

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LogError {
    /// Which one, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

impl LogReader {
    /// A reader of events of an execution, which they need not name.
    pub fn of(execution_id: Option<ExecutionId>) -> Self {
        Self {
            execution_id,
            ..Self::default()
        }
    }

    /// The execution of the log, as far as it is known.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        self.execution_id
    }

    /// Reads the next line; none if it is blank.
    pub fn read(&mut self, line: &str) -> Result<Option<EventRecord>, LogError> {
        self.lines += 1;
        if line.trim().is_empty() {
            return Ok(None);
        }
        let record = self.event(line).map_err(|message| LogError {
            line: self.lines,
            message,
        })?;
        Ok(Some(record))
    }

    fn event(&mut self, line: &str) -> Result<EventRecord, String> {
        let value = parse(line.trim().as_bytes()).map_err(|error| error.to_string())?;
        let Some(map) = value.as_map() else {
            return Err(format!(
                "an event is an object, not a {}",
                value.type_name()
            ));
        };
        let mut map = map.clone();
        self.fill_in(&mut map);
        let event_id = map.get("event_id").map(Json::to_string);
        let named = |message: String| match &event_id {
            Some(id) => format!("event {id}: {message}"),
            None => message,
        };
        let envelope = Json::from(map);
        let arrival = Arrival {
            now: Timestamp::MAX,
            tenant_id: name_in(&envelope, "tenant_id").unwrap_or_default(),
            organization_id: name_in(&envelope, "organization_id").unwrap_or_default(),
        };
        let read =
            read_projected(&envelope, &arrival).map_err(|rejection| named(rejection.message))?;
        let mut event = read.event;
        self.execution_id.get_or_insert(event.execution_id);
        if event.event_time == Timestamp::MAX {
            event.event_time = event.event_id.time();
            event.created_at = event.event_time;
        }
        if event.command_id.is_none() {
            event.command_id = command_in(&envelope);
        }
        let seq = self.seq(&envelope).map_err(named)?;
        let said = envelope.get("ingest_time").and_then(Json::as_str);
        let said = said.and_then(|text| Timestamp::parse_lenient(text).ok().flatten());
        // Who does not say when an event was recorded wrote it down in the order of the text.
        let recorded = said.unwrap_or_else(|| {
            let last = self.recorded.unwrap_or(Timestamp::MIN);
            event.created_at.max(last)
        });
        self.recorded = Some(recorded);
        Ok(EventRecord {
            event,
            seq,
            ingest_time: recorded,
            envelope_checksum: None,
        })
    }

    /// What an event may leave out.
    fn fill_in(&self, map: &mut JsonMap) {
        let is_blank = |key: &str| {
            map.get(key)
                .is_none_or(|value| value.is_null() || value.as_str() == Some(""))
        };
        if is_blank("execution_id")
            && let Some(id) = self.execution_id
        {
            map.insert("execution_id".into(), id.to_string().into());
        }
        for key in ["event_type", "tenant_id", "organization_id"] {
            let is_empty = |value: &Json| value.as_str() == Some("");
            if map.get(key).is_some_and(is_empty) {
                map.remove(key);
            }
        }
    }

    fn seq(&mut self, envelope: &Json) -> Result<Seq, String> {
        self.events += 1;
        let said = envelope.get("seq").filter(|seq| !seq.is_null());
        let numbering = match said {
            Some(_) => Numbering::Told,
            None => Numbering::Counted,
        };
        if *self.numbering.get_or_insert(numbering) != numbering {
            return Err("some events have a seq, and others have none".to_owned());
        }
        let number = match said {
            None => self.events,
            Some(said) => said
                .as_i64()
                .or_else(|| said.as_str()?.parse().ok())
                .ok_or_else(|| format!("seq: expected a number, found {said}"))?,
        };
        Seq::new(number).map_err(|error| error.to_string())
    }
}

fn name_in<T: std::str::FromStr>(envelope: &Json, key: &str) -> Option<T> {
    envelope.get(key)?.as_str()?.parse().ok()
}

/// The command that only the outcome names: where the API shows an event, it has no other place.
fn command_in(envelope: &Json) -> Option<CommandId> {
    let outcome = envelope.get("result")?.get("context")?;
    let said = outcome.get("command_id")?;
    match said.as_str() {
        Some(text) => CommandId::from_digits_or_label(text).ok(),
        None => CommandId::from_json(said).ok(),
    }
}
