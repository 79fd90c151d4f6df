//! Parses logs as text: one event per line, as returned by the API, contained in streams and
//! exports, or written by another system.
//!
//! The parser accepts absent types and statuses, times in several formats, and ids as strings or
//! numbers. Errors name the line and the problem.

use noetl_types::json::parse;
use noetl_types::record::{EventRecord, ProjectionContext, Seq, parse_projected_event};
use noetl_types::{CommandId, ExecutionId, Json, JsonMap, Timestamp};

/// Reads a log line by line.
#[derive(Debug, Clone, Default)]
pub struct LogReader {
    /// Execution of events that name none: that of the first event that names one.
    execution_id: Option<ExecutionId>,
    lines: u64,
    events: i64,
    /// Numbering of the events. Without a seq, their order in the text is used.
    numbering: Option<SeqNumbering>,
    /// Record time of the newest event so far.
    recorded: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeqNumbering {
    Explicit,
    Counted,
}

/// A line that is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LogError {
    /// Line number, from 1.
    pub line: u64,
    /// Description of the problem.
    pub message: String,
}

impl LogReader {
    /// Creates a reader for an execution. Its events need not name it.
    pub fn for_execution(execution_id: Option<ExecutionId>) -> Self {
        Self { execution_id, ..Self::default() }
    }

    /// Execution of the log, if known.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        self.execution_id
    }

    /// Reads the next line. Returns `None` if it is blank.
    pub fn read(&mut self, line: &str) -> Result<Option<EventRecord>, LogError> {
        self.lines += 1;
        if line.trim().is_empty() {
            return Ok(None);
        }
        let record =
            self.read_event(line).map_err(|message| LogError { line: self.lines, message })?;
        Ok(Some(record))
    }

    fn read_event(&mut self, line: &str) -> Result<EventRecord, String> {
        let value = parse(line.trim().as_bytes()).map_err(|error| error.to_string())?;
        let Some(map) = value.as_map() else {
            return Err(format!("an event is an object, not a {}", value.type_name()));
        };
        let mut map = map.clone();
        self.fill_in(&mut map);
        let event_id = map.get("event_id").map(Json::to_string);
        let with_event_id = |message: String| match &event_id {
            Some(id) => format!("event {id}: {message}"),
            None => message,
        };
        let envelope = Json::from(map);
        let context = ProjectionContext {
            now: Timestamp::MAX,
            tenant_id: read_name(&envelope, "tenant_id").unwrap_or_default(),
            organization_id: read_name(&envelope, "organization_id").unwrap_or_default(),
        };
        let projected = parse_projected_event(&envelope, &context)
            .map_err(|rejection| with_event_id(rejection.message))?;
        let mut event = projected.event;
        self.execution_id.get_or_insert(event.execution_id);
        if event.event_time == Timestamp::MAX {
            event.event_time = event.event_id.time();
            event.created_at = event.event_time;
        }
        if event.command_id.is_none() {
            event.command_id = find_command_id(&envelope);
        }
        let seq = self.read_seq(&envelope).map_err(with_event_id)?;
        let ingested = envelope.get("ingest_time").and_then(Json::as_str);
        let ingested = ingested.and_then(|text| Timestamp::parse_lenient(text).ok().flatten());
        // Without a record time, events are assumed to be recorded in the order of the text.
        let recorded = ingested.unwrap_or_else(|| {
            let last = self.recorded.unwrap_or(Timestamp::MIN);
            event.created_at.max(last)
        });
        self.recorded = Some(recorded);
        Ok(EventRecord { event, seq, ingest_time: recorded, envelope_checksum: None })
    }

    /// Fills in fields that an event may omit.
    fn fill_in(&self, map: &mut JsonMap) {
        let is_blank = |key: &str| {
            map.get(key).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
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

    fn read_seq(&mut self, envelope: &Json) -> Result<Seq, String> {
        self.events += 1;
        let seq = envelope.get("seq").filter(|seq| !seq.is_null());
        let numbering = match seq {
            Some(_) => SeqNumbering::Explicit,
            None => SeqNumbering::Counted,
        };
        if *self.numbering.get_or_insert(numbering) != numbering {
            return Err("some events have a seq and others do not".to_owned());
        }
        let number = match seq {
            None => self.events,
            Some(value) => value
                .as_i64()
                .or_else(|| value.as_str()?.parse().ok())
                .ok_or_else(|| format!("seq: expected a number, found {value}"))?,
        };
        Seq::new(number).map_err(|error| error.to_string())
    }
}

fn read_name<T: std::str::FromStr>(envelope: &Json, key: &str) -> Option<T> {
    envelope.get(key)?.as_str()?.parse().ok()
}

/// Finds a command id that only the outcome contains. Events from the API have it nowhere else.
fn find_command_id(envelope: &Json) -> Option<CommandId> {
    let outcome = envelope.get("result")?.get("context")?;
    let id = outcome.get("command_id")?;
    match id.as_str() {
        Some(text) => CommandId::from_digits_or_label(text).ok(),
        None => CommandId::from_json(id).ok(),
    }
}
