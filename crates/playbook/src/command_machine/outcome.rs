//! The outcome of a command.

use noetl_types::report::{FrameReport, RetriedTask, TaskReport};
use noetl_types::{Json, JsonMap, TaskError};

use super::continuation::Continuation;

/// The outcome of a finished command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineOutcome {
    /// The error of the command. `None` if it succeeded.
    pub error: Option<TaskError>,
    /// Failed attempts of tasks that were retried, without those that were taken before. If there
    /// are very many, only the latest are kept.
    pub retries: Vec<RetriedTask>,
    /// The data of the step, as far as this command produces it. If another command continues the
    /// pipeline, the data of its tasks by label.
    pub data: Json,
    /// The data of each task of a pipeline by label, if the data of the last task hides some of it.
    pub labels: Option<Json>,
    /// Values written by the tasks, by the keys of their `set`. A write to a path replaces all
    /// earlier ones at or below it.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// Reports of the tasks.
    pub tasks: Vec<TaskReport>,
    /// Report of the rows of its frame. `None` if no rows were claimed, or there is no frame.
    pub frame: Option<FrameReport>,
    /// The continuation after this command.
    pub next_stage: NextStage,
}

/// The continuation of the step after a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NextStage {
    /// The pipeline has ended, successfully or not.
    #[default]
    End,
    /// Another command continues the pipeline.
    Segment(Continuation),
    /// The started work reports its end later. The data is what is known until then.
    Callback,
}
