//! Events of tasks that wait without a worker: what they wait for, and what comes of it.

use noetl_types::{
    CatalogId, ExecutionId, Json, JsonMap, Millis, PlaybookPath, Seq, SignalId, TaskError, Text,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::CommandAt;
use crate::payload::Data;

/// The name of the signal that is the end of a child.
pub const CHILD_ENDED: &str = "child.ended";
/// The name of the signal that is the decision of a person.
pub const APPROVAL: &str = "approval";

/// What a task waits for, all of its templates rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Park {
    /// A time.
    Sleep(Sleep),
    /// Signals.
    Wait(Wait),
    /// A person.
    Approval(Approval),
    /// Another run; one that is only started ends the command at once.
    Child(Box<ChildCall>),
    /// The word of what a worker started.
    Callback(Callback),
    /// Nothing: what it is to wait for cannot be worked out.
    Broken(Box<Broken>),
}

/// A task that waits for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// When it ends.
    pub until: Timestamp,
    /// How long it is, where that is what was written.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Millis>,
}

/// A task that waits for signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The signals.
    pub signals: Vec<Awaited>,
    /// How many of them it takes.
    pub mode: WaitMode,
    /// How long before the wait a signal may have come.
    pub lookback: Millis,
    /// JSON Schema of a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
}

/// A signal that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    /// Its name.
    pub name: Text,
    /// Its key; any where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Text>,
    /// The name under which the data has it.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
}

/// How many of its signals a wait takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// One.
    Any,
    /// Each of them.
    All,
}

/// A task that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// What it is about, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// JSON Schema of the values that a decision may give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Json>,
    /// The users and groups that may decide; anybody where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Text>,
    /// How many have to approve.
    pub quorum: u32,
    /// What comes of it when nobody decides in time.
    pub on_timeout: Unanswered,
}

/// What comes of an approval when nobody decides in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// The task fails.
    Fail,
    /// It counts as rejected.
    Reject,
    /// It counts as approved.
    Approve,
}

/// A task that runs another playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildCall {
    /// The run that it is. A later attempt of the task is another run.
    pub child: ExecutionId,
    /// What is run.
    pub of: ChildOf,
    /// The version; the newest where absent.
    pub version: Option<u32>,
    /// Whether the task waits for its end.
    pub waits: bool,
    /// The step whose data is wanted; the result of the run where absent.
    pub result_step: Option<Text>,
    /// What becomes of it when it is not done in time.
    pub on_timeout: Overdue,
    /// Its payload: a map.
    pub input: Data,
}

/// What a child runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildOf {
    /// The playbook of a path.
    Path(PlaybookPath),
    /// A version of a playbook.
    CatalogId(CatalogId),
}

/// What becomes of a child that is not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overdue {
    /// It runs on, and nobody waits for it.
    Abandon,
    /// It is cancelled.
    Cancel,
}

/// A task that a worker started and that tells its end by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// What is known of it so far.
    pub started: Json,
}

/// A task whose configuration cannot be worked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    /// Why.
    pub error: TaskError,
}

/// Which timer of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandTimer {
    /// The end of a sleep.
    Sleep,
    /// The time that a wait or an approval has.
    Wait,
    /// The time that a child has.
    Child,
    /// The time that a callback has.
    Callback,
    /// The pause before the next attempt.
    Retry,
}

impl CommandTimer {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sleep,
        Self::Wait,
        Self::Child,
        Self::Callback,
        Self::Retry,
    ];

    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Wait => "wait",
            Self::Child => "child",
            Self::Callback => "callback",
            Self::Retry => "retry",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timer| timer.as_str() == text)
    }
}

/// A timer of a command begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerStarted {
    /// The command.
    pub at: CommandAt,
    /// Which of its timers.
    pub timer: CommandTimer,
    /// When it is due.
    pub fire_at: Timestamp,
    /// The run that takes the place of an earlier one, where the task is tried again.
    pub child: Option<ExecutionId>,
    /// What is known of what a worker started, for a callback.
    pub started: Option<Json>,
    /// All that the task wrote so far, before it is tried again.
    pub set: JsonMap,
}

/// A timer of a command is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTimerFired {
    /// The command.
    pub at: CommandAt,
    /// Which of its timers.
    pub timer: CommandTimer,
    /// When it was due.
    pub fire_at: Timestamp,
}

/// A signal came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalReceived {
    /// Its name.
    pub name: Text,
    /// Its key.
    pub key: Option<Text>,
    /// What it says.
    pub payload: Json,
    /// Who sent it.
    pub actor: Option<Text>,
    /// The broadcast that it is.
    pub broadcast: Option<SignalId>,
    /// The command that takes it; nobody's signal is kept.
    pub taken: Option<Taken>,
}

/// A signal finds its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The command.
    pub by: CommandAt,
    /// Which of the awaited signals it is, from 0.
    pub slot: u32,
    /// When it came, where that was before the wait.
    pub lookback: Option<Timestamp>,
    /// The event that kept it until now.
    pub kept: Option<Seq>,
}
