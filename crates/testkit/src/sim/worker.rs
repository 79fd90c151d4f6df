//! A worker that follows a script: what it renders, rules and reports is what a real one does; only
//! its tools are played, and no time passes while it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_engine::event::CommandIssued;
use noetl_playbook::carried::Carried;
use noetl_playbook::model::Playbook;
use noetl_playbook::shift::{
    Answer, CallSpec, Do, Finished, Job, MAX_DATA, MAX_TASK_RUNS, Moment, Shift,
};
use noetl_playbook::template::TemplateLimits;
use noetl_types::{CommandId, ExecutionId, Json, Seq, TaskError, TaskErrorKind, Text, Timestamp};

use super::play::{Call, Play, as_written, claimed};

/// What a worker is given.
pub(super) struct Task<'j> {
    pub(super) playbook: &'j Arc<Playbook>,
    pub(super) issued: &'j CommandIssued,
    pub(super) carried: Carried,
    pub(super) payloads: &'j BTreeMap<Arc<str>, Json>,
    pub(super) execution_id: ExecutionId,
    pub(super) command: CommandId,
    pub(super) seq: Seq,
    pub(super) attempt: u32,
    /// The time of the event that issued it: that of `now()`.
    pub(super) issued_at: Timestamp,
    pub(super) tools: &'j dyn Fn(&Call<'_>) -> Play,
}

/// Does the work of a command; nothing where the worker is lost in the middle.
pub(super) fn work(task: Task<'_>) -> Option<Finished> {
    let Task {
        issued, payloads, ..
    } = task;
    let total = issued.looping.and_then(|looping| looping.size);
    let job = Job {
        playbook: Arc::clone(task.playbook),
        step: Text::from(issued.step.as_str()),
        execution_id: task.execution_id,
        command_id: Some(task.command),
        worker_id: None,
        idempotency_key: Text::from(format!("{}:{}", task.execution_id, task.seq)),
        carried: task.carried,
        iteration: issued.index.zip(total),
        frame: issued.frame.map(|frame| frame.max_rows),
        issued_at: task.issued_at,
        limits: TemplateLimits::default(),
        max_data: MAX_DATA,
        max_task_runs: MAX_TASK_RUNS,
    };
    let mut shift = Shift::new(job).expect("a command of the playbook");
    let moment = Moment {
        now: None,
        dice: 0.5,
    };
    loop {
        shift = match shift.next(moment) {
            Do::Call(spec, calling) => {
                let answer = play(*spec, issued, task.attempt, task.tools)?;
                calling.called(answer)
            }
            Do::Wait(_, shift) => shift,
            Do::Unlock(spec, unlocking) => {
                let text = format!("the keychain of a simulation has no entry '{}'", spec.name);
                unlocking.unlocked(Err(TaskError::new(TaskErrorKind::Auth, text)))
            }
            Do::Fetch(wanted, fetching) => {
                let payload = payloads.get(&wanted.uri).cloned();
                fetching.fetched(Ok(payload.expect("only what was stored is referred to")))
            }
            Do::Done(finished) => return Some(*finished),
        }
    }
}

/// What a tool says; nothing where the worker is lost over it.
fn play(
    spec: CallSpec,
    issued: &CommandIssued,
    command_attempt: u32,
    tools: &dyn Fn(&Call<'_>) -> Play,
) -> Option<Answer> {
    let config = Json::from(spec.config);
    let input = Json::from(spec.input);
    let call = Call {
        step: issued.step.as_str(),
        label: &spec.label,
        kind: spec.kind,
        run: issued.run,
        index: issued.index,
        attempt: spec.attempt,
        command_attempt,
        config: &config,
        input: &input,
    };
    match tools(&call) {
        Play::AsWritten => Some(Answer::ok(match issued.frame {
            Some(frame) if &*spec.label == "claim" => claimed(&config, issued.index, frame),
            Some(_) | None => as_written(spec.kind, &config),
        })),
        Play::Ok(data) => Some(Answer::ok(data)),
        Play::Fail(error, data) => Some(Answer {
            data,
            ..Answer::failed(*error)
        }),
        Play::Lost => None,
    }
}
