//! Scripted worker: renders, applies policies and reports like a real one. Only its tools are
//! simulated, and no time passes while it waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_engine::event::CommandIssued;
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::{
    CallSpec, CommandMachine, CommandSpec, MAX_TASK_DATA, MAX_TASK_RUNS, MachineAction,
    MachineInput, MachineOutcome, ToolResult,
};
use noetl_playbook::model::Playbook;
use noetl_playbook::template::TemplateLimits;
use noetl_types::{CommandId, ExecutionId, Json, Seq, TaskError, TaskErrorKind, Text, Timestamp};

use super::tool_behavior::{SimulatedCall, ToolBehavior, claim_rows, configured_result};

/// Work of a worker.
pub(super) struct WorkerTask<'j> {
    pub(super) playbook: &'j Arc<Playbook>,
    pub(super) issued: &'j CommandIssued,
    pub(super) context: CommandContext,
    pub(super) payloads: &'j BTreeMap<Arc<str>, Json>,
    pub(super) execution_id: ExecutionId,
    pub(super) command: CommandId,
    pub(super) seq: Seq,
    pub(super) attempt: u32,
    /// Time of the event that issued the command, used for `now()`.
    pub(super) issued_at: Timestamp,
    pub(super) tools: &'j dyn Fn(&SimulatedCall<'_>) -> ToolBehavior,
}

/// Executes a command. Returns `None` if the worker is lost during it.
pub(super) fn execute_command(task: WorkerTask<'_>) -> Option<MachineOutcome> {
    let WorkerTask { issued, payloads, .. } = task;
    let total = issued.looping.and_then(|looping| looping.size);
    let spec = CommandSpec {
        playbook: Arc::clone(task.playbook),
        step: Text::from(issued.step.as_str()),
        execution_id: task.execution_id,
        command_id: Some(task.command),
        worker_id: None,
        idempotency_key: Text::from(format!("{}:{}", task.execution_id, task.seq)),
        context: task.context,
        iteration: issued.index.zip(total),
        frame_max_rows: issued.frame.map(|frame| frame.max_rows),
        issued_at: task.issued_at,
        limits: TemplateLimits::default(),
        budget: None,
        max_data: MAX_TASK_DATA,
        max_task_runs: MAX_TASK_RUNS,
    };
    let mut machine = CommandMachine::new(spec).expect("a command of the playbook");
    let input = MachineInput { now: None, random_fraction: 0.5 };
    loop {
        machine = match machine.next(input) {
            MachineAction::Call(spec, pending) => {
                let result = call_tool(*spec, issued, task.attempt, task.tools)?;
                pending.complete_call(result)
            }
            MachineAction::Wait(_, machine) => machine,
            MachineAction::ResolveSecret(spec, pending) => {
                let text = format!("the keychain of a simulation has no entry '{}'", spec.name);
                pending.complete_secret(Err(TaskError::new(TaskErrorKind::Auth, text)))
            }
            MachineAction::Fetch(request, pending) => {
                let payload = payloads.get(&request.uri).cloned();
                pending.complete_fetch(Ok(payload.expect("references point to stored payloads")))
            }
            MachineAction::Done(outcome) => return Some(*outcome),
        }
    }
}

/// Calls a simulated tool. Returns `None` if the worker is lost during the call.
fn call_tool(
    spec: CallSpec,
    issued: &CommandIssued,
    command_attempt: u32,
    tools: &dyn Fn(&SimulatedCall<'_>) -> ToolBehavior,
) -> Option<ToolResult> {
    let config = Json::from(spec.config);
    let input = Json::from(spec.input);
    let call = SimulatedCall {
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
        ToolBehavior::Configured => Some(ToolResult::ok(match issued.frame {
            Some(frame) if &*spec.label == "claim" => claim_rows(&config, issued.index, frame),
            Some(_) | None => configured_result(spec.kind, &config),
        })),
        ToolBehavior::Ok(data) => Some(ToolResult::ok(data)),
        ToolBehavior::Fail(error, data) => Some(ToolResult { data, ..ToolResult::failed(*error) }),
        ToolBehavior::Lost => None,
    }
}
