//! What a task is to wait for, read from its rendered configuration.

use std::sync::Arc;

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits, is_shallow};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::shift::CallSpec;
use noetl_playbook::template::truthy;
use noetl_types::limits::MAX_COMMAND_CONTEXT;
use noetl_types::{
    CatalogId, Json, JsonMap, Millis, PlaybookPath, TaskError, TaskErrorKind, Text, Timestamp,
};

use super::schema;
use crate::decide::Refused;
use crate::decide::draft::Draft;
use crate::event::{
    APPROVAL, Approval, Awaited, CHILD_ENDED, ChildCall, ChildOf, Overdue, Park, Sleep, Unanswered,
    Wait, WaitMode,
};

/// Runs that may stand above one another.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// Broadcasts are kept for so long, and no wait looks back further.
const MAX_LOOKBACK: Millis = Millis::from_days(30);
/// Signals of one wait.
const MAX_SIGNALS: usize = 100;

/// What a task waits for, or why that cannot be told.
pub(super) fn read(
    draft: &mut Draft<'_>,
    step: StepIndex,
    spec: CallSpec,
) -> Result<Result<Park, TaskError>, Refused> {
    if spec.kind == ToolKind::Playbook {
        return child(draft, step, spec);
    }
    let config = Config(&spec.config);
    Ok(config.small().and_then(|()| match spec.kind {
        ToolKind::Sleep => config.sleep(draft.now).map(Park::Sleep),
        ToolKind::Wait => config.wait().map(Park::Wait),
        ToolKind::Approval => config.approval().map(Park::Approval),
        other => Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("a task of kind `{other}` does not wait"),
        )),
    }))
}

/// A child gets its id here: it is recorded before anything is started.
fn child(
    draft: &mut Draft<'_>,
    step: StepIndex,
    spec: CallSpec,
) -> Result<Result<Park, TaskError>, Refused> {
    let depth = draft.state.started().map_or(0, |started| started.depth);
    if depth >= MAX_CHILD_DEPTH {
        let message = format!("more than {MAX_CHILD_DEPTH} runs stand above one another");
        return Ok(Err(TaskError::new(TaskErrorKind::Limit, message)));
    }
    let mut config = spec.config;
    let payload = config.remove("payload");
    let input = match child_input(spec.input, payload) {
        Ok(input) => input,
        Err(error) => return Ok(Err(error)),
    };
    let called = Config(&config)
        .small()
        .and_then(|()| Config(&config).child());
    let called = match called {
        Ok(called) => called,
        Err(error) => return Ok(Err(error)),
    };
    let name = draft.name(step);
    let budget = draft.plan.defaults().inline_max;
    let input = draft.keep(&name, Json::from(input), budget.as_bytes())?;
    let child = draft.new_execution()?;
    Ok(Ok(Park::Child(Box::new(ChildCall {
        child,
        of: called.of,
        version: called.version,
        waits: called.waits,
        result_step: called.result_step,
        on_timeout: called.on_timeout,
        input,
    }))))
}

/// The payload of a child: the input of the task, with what is called so on top.
fn child_input(mut input: JsonMap, payload: Option<Json>) -> Result<JsonMap, TaskError> {
    match payload {
        None | Some(Json::Null) => {}
        Some(Json::Map(payload)) => {
            let entries = payload.iter();
            input.extend(entries.map(|(key, value)| (Arc::clone(key), value.clone())));
        }
        Some(other) => return Err(wrong("payload", "a map", &other)),
    }
    if is_shallow(&Json::from(input.clone()), MAX_VALUE_DEPTH) {
        return Ok(input);
    }
    let message = "payload: it is nested too deeply";
    Err(TaskError::new(TaskErrorKind::Limit, message))
}

/// What a playbook task says of its child.
struct Called {
    of: ChildOf,
    version: Option<u32>,
    waits: bool,
    result_step: Option<Text>,
    on_timeout: Overdue,
}

/// A configuration.
struct Config<'c>(&'c JsonMap);

impl Config<'_> {
    /// A value that is there and not null.
    fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Refuses what the log cannot hold.
    fn small(&self) -> Result<(), TaskError> {
        let all = Json::from(self.0.clone());
        let budget = usize::try_from(MAX_COMMAND_CONTEXT.as_bytes()).unwrap_or(usize::MAX);
        if fits(&all, budget) && is_shallow(&all, MAX_VALUE_DEPTH) {
            return Ok(());
        }
        let message = "the configuration is too large or nested too deeply";
        Err(TaskError::new(TaskErrorKind::Limit, message))
    }

    fn duration(&self, key: &'static str) -> Result<Option<Millis>, TaskError> {
        let read = |value: &Json| Millis::from_json(value).ok();
        self.read(key, "a duration", read)
    }

    fn text(&self, key: &'static str) -> Result<Option<Text>, TaskError> {
        self.read(key, "a text", plain_text)
    }

    fn read<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<Option<T>, TaskError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| wrong(key, expected, value)),
        }
    }

    fn sleep(&self, now: Timestamp) -> Result<Sleep, TaskError> {
        let until = self.read("until", "a time with its zone", |value| {
            Timestamp::parse(value.as_str()?.trim()).ok()
        })?;
        let length = self.duration("for")?;
        match (until, length) {
            (Some(until), None) => Ok(Sleep {
                until,
                length: None,
            }),
            (None, Some(length)) => Ok(Sleep {
                until: now.saturating_add(length),
                length: Some(length),
            }),
            (Some(_), Some(_)) | (None, None) => Err(TaskError::new(
                TaskErrorKind::Schema,
                "a sleep has either `for` or `until`",
            )),
        }
    }

    fn wait(&self) -> Result<Wait, TaskError> {
        let key = self.text("key")?;
        let signals = match (self.get("signal"), self.get("signals")) {
            (Some(signal), None) => vec![awaited(signal, key.as_ref())?],
            (None, Some(Json::List(signals))) if !signals.is_empty() => signals
                .iter()
                .map(|signal| awaited(signal, key.as_ref()))
                .collect::<Result<_, _>>()?,
            (None, Some(other)) => return Err(wrong("signals", "a list of signals", other)),
            (None, None) | (Some(_), Some(_)) => {
                let message = "a wait has either `signal` or `signals`";
                return Err(TaskError::new(TaskErrorKind::Schema, message));
            }
        };
        if signals.len() > MAX_SIGNALS {
            let message = format!("signals: at most {MAX_SIGNALS}");
            return Err(TaskError::new(TaskErrorKind::Limit, message));
        }
        let mode = self.read("mode", "`any` or `all`", |mode| match mode.as_str()? {
            "any" => Some(WaitMode::Any),
            "all" => Some(WaitMode::All),
            _ => None,
        })?;
        let lookback = self.duration("lookback")?.unwrap_or_default();
        Ok(Wait {
            signals,
            mode: mode.unwrap_or(WaitMode::Any),
            lookback: lookback.min(MAX_LOOKBACK),
            schema: self.schema("schema")?,
        })
    }

    fn approval(&self) -> Result<Approval, TaskError> {
        let quorum = self.read("quorum", "a whole number from 1", |value| {
            let quorum = u32::try_from(value.as_u64()?).ok()?;
            (quorum > 0).then_some(quorum)
        })?;
        let words = "`fail`, `reject` or `approve`";
        let on_timeout = self.read("on_timeout", words, |word| match word.as_str()? {
            "fail" => Some(Unanswered::Fail),
            "reject" => Some(Unanswered::Reject),
            "approve" => Some(Unanswered::Approve),
            _ => None,
        })?;
        let approvers = self.read("approvers", "a list of names", |list| {
            list.as_list()?.iter().map(plain_text).collect()
        })?;
        Ok(Approval {
            title: self.text("title")?,
            message: self.text("message")?,
            form: self.schema("form")?,
            approvers: approvers.unwrap_or_default(),
            quorum: quorum.unwrap_or(1),
            on_timeout: on_timeout.unwrap_or(Unanswered::Fail),
        })
    }

    fn schema(&self, key: &'static str) -> Result<Option<Json>, TaskError> {
        let Some(schema) = self.get(key) else {
            return Ok(None);
        };
        match schema::fault(schema) {
            None => Ok(Some(schema.clone())),
            Some(why) => {
                let message = format!("{key}: not a JSON Schema: {why}");
                Err(TaskError::new(TaskErrorKind::Schema, message))
            }
        }
    }

    fn child(&self) -> Result<Called, TaskError> {
        let path = self.read("path", "a path", |path| {
            PlaybookPath::new(path.as_str()?).ok().map(ChildOf::Path)
        })?;
        let catalog_id = self.read("catalog_id", "an id", |id| {
            CatalogId::from_json(id).ok().map(ChildOf::CatalogId)
        })?;
        let of = path.or(catalog_id).ok_or_else(|| {
            let message = "a playbook task has `path` or `catalog_id`";
            TaskError::new(TaskErrorKind::Schema, message)
        })?;
        // The newest is no version in particular.
        let version = match self.get("version").and_then(Json::as_str) {
            Some("latest") => None,
            Some(_) | None => {
                self.read("version", "a whole number from 1, or `latest`", version)?
            }
        };
        let on_timeout = self.read("on_timeout", "`abandon` or `cancel`", |word| {
            match word.as_str()? {
                "abandon" => Some(Overdue::Abandon),
                "cancel" => Some(Overdue::Cancel),
                _ => None,
            }
        })?;
        let return_step = self.text("return_step")?;
        let return_result = self.get("return_result").is_some_and(truthy);
        let result_step = match return_step.clone() {
            None => self.text("result_step")?,
            found => found,
        };
        Ok(Called {
            of,
            version,
            waits: return_step.is_some() || return_result,
            result_step,
            on_timeout: on_timeout.unwrap_or(Overdue::Abandon),
        })
    }
}

fn version(value: &Json) -> Option<u32> {
    let number = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => u32::try_from(value.as_u64()?).ok(),
    };
    number.filter(|version| *version > 0)
}

/// One signal of a wait: a name, or a map with name, key and label.
fn awaited(signal: &Json, key: Option<&Text>) -> Result<Awaited, TaskError> {
    let (name, own_key, label) = match signal {
        Json::Str(_) => (plain_text(signal), None, None),
        Json::Map(map) => {
            let part = |name: &str| map.get(name).and_then(plain_text);
            (part("name"), part("key"), part("as"))
        }
        _ => (None, None, None),
    };
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong("signals", "the name of a signal", signal))?;
    if matches!(name.as_str(), APPROVAL | CHILD_ENDED) {
        let message = format!("signals: the name `{name}` is reserved");
        return Err(TaskError::new(TaskErrorKind::Schema, message));
    }
    Ok(Awaited {
        name,
        key: own_key.or_else(|| key.cloned()),
        label,
    })
}

/// A text, or what a number or a bool reads as.
fn plain_text(value: &Json) -> Option<Text> {
    match value {
        Json::Str(text) => Text::new(Arc::clone(text)).ok(),
        Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Bool(_) => {
            Some(Text::from(value.to_string()))
        }
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

fn wrong(key: &str, expected: &str, found: &Json) -> TaskError {
    let found = found.type_name();
    let message = format!("{key}: expected {expected}, found a {found} that is none");
    TaskError::new(TaskErrorKind::Schema, message)
}
