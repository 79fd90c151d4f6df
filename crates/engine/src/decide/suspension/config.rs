//! Parses the rendered configuration of tasks that suspend.

use std::sync::Arc;

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits_within, is_shallow};
use noetl_playbook::command_machine::CallSpec;
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::ToolKind;
use noetl_playbook::template::is_truthy;
use noetl_types::limits::MAX_COMMAND_CONTEXT_SIZE;
use noetl_types::{
    CatalogId, Json, JsonMap, Millis, PlaybookPath, TaskError, TaskErrorKind, Text, Timestamp,
};

use super::schema;
use crate::decide::Result;
use crate::decide::draft::Draft;
use crate::event::{
    APPROVAL_SIGNAL, ApprovalSpec, ApprovalTimeoutAction, AwaitedSignal, CHILD_ENDED_SIGNAL,
    ChildCall, ChildTarget, ChildTimeoutAction, SignalWait, SleepSpec, SuspensionKind, WaitMode,
};

/// Maximum nesting depth of child executions.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// Maximum lookback of a wait: the retention of broadcasts.
const MAX_LOOKBACK: Millis = Millis::from_days(30);
/// Maximum number of signals of one wait.
const MAX_SIGNALS: usize = 100;

/// Parses the condition that a task waits for. The inner error is a failure of the task.
pub(super) fn parse_suspension_config(
    draft: &mut Draft<'_>,
    step: StepIndex,
    spec: CallSpec,
) -> Result<Result<SuspensionKind, TaskError>> {
    if spec.kind == ToolKind::Playbook {
        return parse_child(draft, step, spec);
    }
    let config = TaskConfig(&spec.config);
    Ok(config.check_size().and_then(|()| match spec.kind {
        ToolKind::Sleep => config.parse_sleep(draft.now).map(SuspensionKind::Sleep),
        ToolKind::Wait => config.parse_wait().map(SuspensionKind::Wait),
        ToolKind::Approval => config.parse_approval().map(SuspensionKind::Approval),
        other => Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!("a task of kind `{other}` does not wait"),
        )),
    }))
}

/// Parses the configuration of a child execution. Its id is assigned here, because it is recorded
/// before the child is started.
fn parse_child(
    draft: &mut Draft<'_>,
    step: StepIndex,
    spec: CallSpec,
) -> Result<Result<SuspensionKind, TaskError>> {
    let depth = draft.state.start_event().map_or(0, |started| started.depth);
    if depth >= MAX_CHILD_DEPTH {
        let message =
            format!("child executions are nested more than {MAX_CHILD_DEPTH} levels deep");
        return Ok(Err(TaskError::new(TaskErrorKind::Limit, message)));
    }
    let mut config = spec.config;
    let payload = config.remove("payload");
    let input = match child_input(spec.input, payload) {
        Ok(input) => input,
        Err(error) => return Ok(Err(error)),
    };
    let child_config =
        TaskConfig(&config).check_size().and_then(|()| TaskConfig(&config).parse_child_config());
    let child_config = match child_config {
        Ok(child_config) => child_config,
        Err(error) => return Ok(Err(error)),
    };
    let name = draft.step_name(step);
    let budget = draft.plan.defaults().inline_max;
    let input = draft.inline_or_store(&name, Json::from(input), budget.as_bytes())?;
    let child = draft.new_execution_id()?;
    Ok(Ok(SuspensionKind::Child(Box::new(ChildCall {
        child,
        of: child_config.of,
        version: child_config.version,
        waits: child_config.waits,
        result_step: child_config.result_step,
        on_timeout: child_config.on_timeout,
        input,
    }))))
}

/// Merges the `payload` of a child over the input of its task.
fn child_input(mut input: JsonMap, payload: Option<Json>) -> Result<JsonMap, TaskError> {
    match payload {
        None | Some(Json::Null) => {}
        Some(Json::Map(payload)) => {
            let entries = payload.iter();
            input.extend(entries.map(|(key, value)| (Arc::clone(key), value.clone())));
        }
        Some(other) => return Err(config_error("payload", "a map", &other)),
    }
    if is_shallow(&Json::from(input.clone()), MAX_VALUE_DEPTH) {
        return Ok(input);
    }
    let message = "payload: nested too deeply";
    Err(TaskError::new(TaskErrorKind::Limit, message))
}

/// Configuration of a child execution.
struct ChildConfig {
    of: ChildTarget,
    version: Option<u32>,
    waits: bool,
    result_step: Option<Text>,
    on_timeout: ChildTimeoutAction,
}

/// The rendered configuration of a task.
struct TaskConfig<'c>(&'c JsonMap);

impl TaskConfig<'_> {
    /// Returns a value that is present and not null.
    fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Checks that the log can store the configuration.
    fn check_size(&self) -> Result<(), TaskError> {
        let all = Json::from(self.0.clone());
        let budget = usize::try_from(MAX_COMMAND_CONTEXT_SIZE.as_bytes()).unwrap_or(usize::MAX);
        if fits_within(&all, budget) && is_shallow(&all, MAX_VALUE_DEPTH) {
            return Ok(());
        }
        let message = "the configuration is too large or nested too deeply";
        Err(TaskError::new(TaskErrorKind::Limit, message))
    }

    fn read_duration(&self, key: &'static str) -> Result<Option<Millis>, TaskError> {
        let read = |value: &Json| Millis::from_json(value).ok();
        self.read_value(key, "a duration", read)
    }

    fn read_text(&self, key: &'static str) -> Result<Option<Text>, TaskError> {
        self.read_value(key, "a text", plain_text)
    }

    fn read_value<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<Option<T>, TaskError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| config_error(key, expected, value)),
        }
    }

    fn parse_sleep(&self, now: Timestamp) -> Result<SleepSpec, TaskError> {
        let until = self.read_value("until", "a time with its zone", |value| {
            Timestamp::parse(value.as_str()?.trim()).ok()
        })?;
        let length = self.read_duration("for")?;
        match (until, length) {
            (Some(until), None) => Ok(SleepSpec { until, length: None }),
            (None, Some(length)) => {
                Ok(SleepSpec { until: now.saturating_add(length), length: Some(length) })
            }
            (Some(_), Some(_)) | (None, None) => {
                Err(TaskError::new(TaskErrorKind::Schema, "a sleep needs either `for` or `until`"))
            }
        }
    }

    fn parse_wait(&self) -> Result<SignalWait, TaskError> {
        let key = self.read_text("key")?;
        let signals = match (self.get("signal"), self.get("signals")) {
            (Some(signal), None) => vec![parse_awaited_signal(signal, key.as_ref())?],
            (None, Some(Json::List(signals))) if !signals.is_empty() => signals
                .iter()
                .map(|signal| parse_awaited_signal(signal, key.as_ref()))
                .collect::<Result<_, _>>()?,
            (None, Some(other)) => return Err(config_error("signals", "a list of signals", other)),
            (None, None) | (Some(_), Some(_)) => {
                let message = "a wait needs either `signal` or `signals`";
                return Err(TaskError::new(TaskErrorKind::Schema, message));
            }
        };
        if signals.len() > MAX_SIGNALS {
            let message = format!("signals: at most {MAX_SIGNALS} are allowed");
            return Err(TaskError::new(TaskErrorKind::Limit, message));
        }
        let mode = self.read_value("mode", "`any` or `all`", |mode| match mode.as_str()? {
            "any" => Some(WaitMode::Any),
            "all" => Some(WaitMode::All),
            _ => None,
        })?;
        let lookback = self.read_duration("lookback")?.unwrap_or_default();
        Ok(SignalWait {
            signals,
            mode: mode.unwrap_or(WaitMode::Any),
            lookback: lookback.min(MAX_LOOKBACK),
            schema: self.read_schema("schema")?,
        })
    }

    fn parse_approval(&self) -> Result<ApprovalSpec, TaskError> {
        let quorum = self.read_value("quorum", "a whole number from 1", |value| {
            let quorum = u32::try_from(value.as_u64()?).ok()?;
            (quorum > 0).then_some(quorum)
        })?;
        let expected = "`fail`, `reject` or `approve`";
        let on_timeout =
            self.read_value("on_timeout", expected, |action| match action.as_str()? {
                "fail" => Some(ApprovalTimeoutAction::Fail),
                "reject" => Some(ApprovalTimeoutAction::Reject),
                "approve" => Some(ApprovalTimeoutAction::Approve),
                _ => None,
            })?;
        let approvers = self.read_value("approvers", "a list of names", |list| {
            list.as_list()?.iter().map(plain_text).collect()
        })?;
        Ok(ApprovalSpec {
            title: self.read_text("title")?,
            message: self.read_text("message")?,
            form: self.read_schema("form")?,
            approvers: approvers.unwrap_or_default(),
            quorum: quorum.unwrap_or(1),
            on_timeout: on_timeout.unwrap_or(ApprovalTimeoutAction::Fail),
        })
    }

    fn read_schema(&self, key: &'static str) -> Result<Option<Json>, TaskError> {
        let Some(schema) = self.get(key) else {
            return Ok(None);
        };
        match schema::schema_error(schema) {
            None => Ok(Some(schema.clone())),
            Some(reason) => {
                let message = format!("{key}: not a JSON Schema: {reason}");
                Err(TaskError::new(TaskErrorKind::Schema, message))
            }
        }
    }

    fn parse_child_config(&self) -> Result<ChildConfig, TaskError> {
        let path = self.read_value("path", "a path", |path| {
            PlaybookPath::new(path.as_str()?).ok().map(ChildTarget::Path)
        })?;
        let catalog_id = self.read_value("catalog_id", "an id", |id| {
            CatalogId::from_json(id).ok().map(ChildTarget::CatalogId)
        })?;
        let of = path.or(catalog_id).ok_or_else(|| {
            let message = "a playbook task needs `path` or `catalog_id`";
            TaskError::new(TaskErrorKind::Schema, message)
        })?;
        // `latest` selects no specific version.
        let version = match self.get("version").and_then(Json::as_str) {
            Some("latest") => None,
            Some(_) | None => {
                self.read_value("version", "a whole number from 1, or `latest`", parse_version)?
            }
        };
        let on_timeout = self.read_value("on_timeout", "`abandon` or `cancel`", |action| {
            match action.as_str()? {
                "abandon" => Some(ChildTimeoutAction::Abandon),
                "cancel" => Some(ChildTimeoutAction::Cancel),
                _ => None,
            }
        })?;
        let return_step = self.read_text("return_step")?;
        let return_result = self.get("return_result").is_some_and(is_truthy);
        let result_step = match return_step.clone() {
            None => self.read_text("result_step")?,
            found => found,
        };
        Ok(ChildConfig {
            of,
            version,
            waits: return_step.is_some() || return_result,
            result_step,
            on_timeout: on_timeout.unwrap_or(ChildTimeoutAction::Abandon),
        })
    }
}

fn parse_version(value: &Json) -> Option<u32> {
    let number = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => u32::try_from(value.as_u64()?).ok(),
    };
    number.filter(|version| *version > 0)
}

/// Parses one signal of a wait: a name, or a map with name, key and label.
fn parse_awaited_signal(signal: &Json, key: Option<&Text>) -> Result<AwaitedSignal, TaskError> {
    let (name, own_key, label) = match signal {
        Json::Str(_) => (plain_text(signal), None, None),
        Json::Map(map) => {
            let field = |name: &str| map.get(name).and_then(plain_text);
            (field("name"), field("key"), field("as"))
        }
        _ => (None, None, None),
    };
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| config_error("signals", "the name of a signal", signal))?;
    if matches!(name.as_str(), APPROVAL_SIGNAL | CHILD_ENDED_SIGNAL) {
        let message = format!("signals: the name `{name}` is reserved");
        return Err(TaskError::new(TaskErrorKind::Schema, message));
    }
    Ok(AwaitedSignal { name, key: own_key.or_else(|| key.cloned()), label })
}

/// Converts a string, a number or a bool to text.
fn plain_text(value: &Json) -> Option<Text> {
    match value {
        Json::Str(text) => Text::new(Arc::clone(text)).ok(),
        Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Bool(_) => {
            Some(Text::from(value.to_string()))
        }
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

fn config_error(key: &str, expected: &str, found: &Json) -> TaskError {
    let found = found.type_name();
    let message = format!("{key}: expected {expected}, found an invalid {found}");
    TaskError::new(TaskErrorKind::Schema, message)
}
