//! What tools do: the same again whenever they are called again, so that it does not matter how often
//! a command is carried out.

use noetl_oracle::{Answer as Scripted, Call as ScriptedCall, Outcomes as _, Script};
use noetl_playbook::model::ToolKind;
use noetl_playbook::shift::Answer;
use noetl_testkit::sim::{Call, Play};
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::weather::draw;

/// Who answers for the tools of a playbook.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tools {
    /// Chance, by the place of the call.
    Moody(u64),
    /// The playbook itself, in the commands of its tasks.
    Scripted,
}

impl Tools {
    pub(crate) fn play(self, call: &Call<'_>) -> Play {
        if call.kind == ToolKind::Noop || call.label == "claim" {
            return Play::AsWritten;
        }
        match self {
            Self::Moody(seed) => moody(seed, call),
            Self::Scripted => scripted(call),
        }
    }
}

fn moody(seed: u64, call: &Call<'_>) -> Play {
    let (step, label, index, attempt) = (call.step, call.label, call.index, call.attempt);
    let mut chance = draw(seed, &format!("tool {step} {label} {index:?} {attempt}"));
    if chance.percent(15) {
        return Play::fail(TaskErrorKind::ServerError, "not today");
    }
    let command = call.config.get("command").cloned();
    Play::Ok(Json::object([
        ("did", command.unwrap_or_default()),
        ("index", Json::from(index)),
    ]))
}

fn scripted(call: &Call<'_>) -> Play {
    let answer = Script.answer(&ScriptedCall {
        step: call.step,
        run: u64::from(call.run),
        index: call.index.map(|index| index as usize),
        label: call.label,
        kind: call.kind,
        visit: 1,
        attempt: u64::from(call.attempt),
        config: call.config,
        input: call.input,
    });
    match answer {
        Scripted::Ok(data) => Play::Ok(data),
        Scripted::Error(error) => {
            let kind = TaskErrorKind::parse(error.kind.as_str()).unwrap_or(TaskErrorKind::Unknown);
            let failed = TaskError::new(kind, error.message.as_str());
            Play::Fail(Box::new(failed), error.data)
        }
    }
}

/// What a worker is told by a tool; a frame asks for so many rows.
pub(crate) fn answer(play: Play, call: &Call<'_>, max_rows: Option<u32>) -> Answer {
    match play {
        Play::Ok(data) => Answer::ok(data),
        Play::Fail(error, data) => Answer {
            data,
            ..Answer::failed(*error)
        },
        Play::AsWritten => Answer::ok(match max_rows {
            Some(max_rows) if call.label == "claim" => rows(call, max_rows),
            Some(_) | None => as_written(call),
        }),
        Play::Lost => unreachable!("no tool here takes its worker along"),
    }
}

/// The statement `rows 7` stands for a table of seven rows; the number of the frame says which of
/// them it gets.
fn rows(call: &Call<'_>, max_rows: u32) -> Json {
    let statement = call.config.get("command").and_then(Json::as_str);
    let all = statement.and_then(|text| text.strip_prefix("rows ")?.parse().ok());
    let all: u32 = all.unwrap_or_default();
    let first = call.index.unwrap_or_default() * max_rows;
    let ids = first..all.min(first + max_rows).max(first);
    let rows = ids.map(|id| Json::object([("id", Json::from(id))]));
    Json::object([("rows", Json::list(rows))])
}

fn as_written(call: &Call<'_>) -> Json {
    let of = |key| call.config.get(key).cloned();
    of("result").unwrap_or_else(|| {
        Json::object([
            ("status", Json::from("ok")),
            ("message", of("message").unwrap_or_default()),
        ])
    })
}
