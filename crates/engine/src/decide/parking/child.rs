//! Runs that are waited for, and what workers started.

use std::sync::Arc;

use noetl_playbook::shift::Answer;
use noetl_types::{ExecutionId, ExecutionStatus, Json, TaskError, TaskErrorKind};

use super::begin::find;
use super::conclude::conclude;
use crate::decide::draft::Draft;
use crate::decide::input::{Called, ChildEnd, ChildEnded};
use crate::decide::{Refused, Verdict, report};
use crate::event::{CHILD_ENDED, EventKind, Park, SignalReceived, Taken};
use crate::payload::Data;

/// A run that is waited for has ended.
pub(in crate::decide) fn child_ended(
    draft: &mut Draft<'_>,
    ended: ChildEnded,
) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    let command = draft.state.waits_for_child(ended.child);
    let command = command.ok_or(Refused::UnknownChild(ended.child))?;
    let Some((at, _)) = find(draft, command) else {
        return Err(draft.broken("wait"));
    };
    let (status, answer) = answer(draft, ended)?;
    let payload = Json::object([
        ("execution_id", Json::from(answer.child.to_string())),
        ("status", Json::from(status.as_str())),
    ]);
    draft.emit(EventKind::SignalReceived(Box::new(SignalReceived {
        name: CHILD_ENDED.into(),
        key: None,
        payload,
        actor: None,
        broadcast: None,
        taken: Some(Taken {
            by: at,
            slot: 0,
            lookback: None,
            kept: None,
        }),
    })))?;
    if let Some(closing) = conclude(draft, command, answer.answer)? {
        report::follow_up(draft, closing)?;
    }
    Ok(Verdict::Accepted)
}

/// What a task is told of its child.
struct Told {
    child: ExecutionId,
    answer: Answer,
}

fn answer(draft: &Draft<'_>, ended: ChildEnded) -> Result<(ExecutionStatus, Told), Refused> {
    let child = ended.child;
    let failed = |status: ExecutionStatus, error: TaskError| {
        let answer = Answer::failed(error);
        (status, Told { child, answer })
    };
    Ok(match ended.end {
        ChildEnd::Completed { result } => {
            let status = ExecutionStatus::Completed;
            let data = result_of(draft, child, result)?;
            let answer = Answer::ok(data);
            (status, Told { child, answer })
        }
        ChildEnd::Failed { error } => {
            let status = ExecutionStatus::Failed;
            let message = format!("the child failed: {}", error.message);
            failed(status, of_child(child, status, message, Some(error)))
        }
        ChildEnd::Cancelled { reason } => {
            let status = ExecutionStatus::Cancelled;
            let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let message = format!("the child was cancelled{why}");
            failed(status, of_child(child, status, message, None))
        }
        ChildEnd::NotStarted { error } => failed(ExecutionStatus::Failed, error),
    })
}

fn of_child(
    child: ExecutionId,
    status: ExecutionStatus,
    message: String,
    cause: Option<TaskError>,
) -> TaskError {
    let mut details = vec![
        ("execution_id", Json::from(child.to_string())),
        ("status", Json::from(status.as_str())),
    ];
    details.extend(cause.map(|cause| ("error", cause.to_json())));
    TaskError {
        details: Some(Json::object(details)),
        ..TaskError::new(TaskErrorKind::Child, message)
    }
}

/// What came out of a child, with its id and status where these names are free.
fn result_of(draft: &Draft<'_>, child: ExecutionId, result: Data) -> Result<Json, Refused> {
    let result = match result {
        Data::Inline(value) => value,
        Data::External(reference) => match draft.vault().get(&reference) {
            Some(value) => value,
            None => return Err(Refused::NeedsPayload(reference.uri().into())),
        },
    };
    let mut data = match result {
        Json::Map(map) => map,
        other => Arc::new([("data".into(), other)].into()),
    };
    let status = ExecutionStatus::Completed.as_str();
    for (key, value) in [
        ("execution_id", Json::from(child.to_string())),
        ("status", Json::from(status)),
    ] {
        if !data.contains_key(key) {
            Arc::make_mut(&mut data).insert(key.into(), value);
        }
    }
    Ok(Json::Map(data))
}

/// What a worker started tells its end. Like the report of a worker it counts even during a pause.
pub(in crate::decide) fn called(draft: &mut Draft<'_>, called: Called) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    let command = called.command;
    let started = match find(draft, command) {
        Some((_, parked)) => match parked.park {
            Park::Callback(callback) => Some(callback.started),
            Park::Sleep(_)
            | Park::Wait(_)
            | Park::Approval(_)
            | Park::Child(_)
            | Park::Broken(_) => None,
        },
        None => None,
    };
    let Some(started) = started else {
        return Err(Refused::UnknownCommand(command));
    };
    let answer = Answer {
        data: laid_over(started, called.data),
        error: called.error,
        ..Answer::default()
    };
    if let Some(closing) = conclude(draft, command, answer)? {
        report::follow_up(draft, closing)?;
    }
    Ok(Verdict::Accepted)
}

/// What is known at the end, over what was known at the beginning.
fn laid_over(started: Json, ended: Json) -> Json {
    match (started, ended) {
        (Json::Map(mut under), Json::Map(over)) => {
            let entries = over
                .iter()
                .map(|(key, value)| (Arc::clone(key), value.clone()));
            Arc::make_mut(&mut under).extend(entries);
            Json::Map(under)
        }
        (started, Json::Null) => started,
        (_, ended) => ended,
    }
}
