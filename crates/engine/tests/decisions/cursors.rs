//! Loops over a cursor: chains of frames, rows, and what becomes of both.

use noetl_engine::event::TimerId;
use noetl_engine::{EventKind, Input, ReportOutcome, Verdict, Work};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use crate::json;

/// A table of so many rows, claimed two at a time, and what else the step says.
fn body(rows: u32, chains: u32, rest: &str) -> String {
    format!(
        r#"
workflow:
  - step: each
    loop:
      cursor: {{ claim: "rows {rows}" }}
      iterator: row
      spec: {{ mode: cursor, max_in_flight: {chains}, frame: {{ max_rows: 2 }} }}
    tool: {{ kind: noop, result: "{{{{ row.id }}}}", set: {{ ctx.last: "{{{{ row.id }}}}" }} }}
{rest}"#
    )
}

fn boom() -> Play {
    Play::fail(TaskErrorKind::Transform, "boom")
}

fn result(sim: &Sim) -> Json {
    let last = sim.log().last().unwrap();
    match &last.kind {
        EventKind::PlaybookCompleted {
            result: Some(noetl_engine::Data::Inline(value)),
        } => value.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_chain() {
    let sim = Sim::of(&body(3, 1, "")).run();
    insta::assert_snapshot!(sim.table());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(
        result(&sim),
        json(r#"{"data":[],"results":[],"stats":{"failed":0,"frames":2,"success":3,"total":3}}"#)
    );
    sim.decide_again();
}

#[test]
fn two_chains_end_each_with_an_empty_frame() {
    let sim = Sim::of(&body(5, 2, "")).run();
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
}

#[test]
fn no_rows_at_all() {
    let sim = Sim::of(&body(0, 3, "")).run();
    assert_eq!(
        result(&sim).get("stats"),
        Some(&json(r#"{"failed":0,"frames":0,"success":0,"total":0}"#))
    );
    let issued = |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandIssued(_));
    assert_eq!(sim.log().iter().filter(issued).count(), 3);
}

#[test]
fn the_rows_of_a_frame_at_once() {
    let text = body(3, 1, "").replace("max_rows: 2", "max_rows: 2, process: frame");
    let text = text.replace("{{ row.id }}", "{{ row | map(attribute='id') | list }}");
    let sim = Sim::of(&text).run();
    let data: Vec<String> = sim
        .log()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::CallDone(done) => Some(format!("{:?}", done.outcome.data)),
            _ => None,
        })
        .collect();
    assert_eq!(data.len(), 3);
    assert_eq!(sim.state().ctx(), &json(r#"{"last":[2]}"#));
}

#[test]
fn a_frame_that_fails_fails_the_step() {
    let fails = |call: &Call<'_>| match (call.label, call.index) {
        ("each", Some(1)) => boom(),
        _ => Play::AsWritten,
    };
    let sim = Sim::of(&body(8, 2, "")).with_tools(fails).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
}

#[test]
fn rows_that_fail_are_counted_in_best_effort() {
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let fails = |call: &Call<'_>| match call.config.get("result").and_then(Json::as_i64) {
        Some(0 | 4) if call.label == "each" => boom(),
        _ => Play::AsWritten,
    };
    let sim = Sim::of(&body(5, 1, rest)).with_tools(fails).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let data = result(&sim);
    assert_eq!(
        data.get("stats"),
        Some(&json(r#"{"failed":2,"frames":3,"success":3,"total":5}"#))
    );
    let errors = data.get("errors").and_then(Json::as_list).unwrap();
    let places: Vec<_> = errors
        .iter()
        .map(|failed| {
            let row = failed
                .get("error")
                .and_then(|error| error.get("details")?.get("row"));
            (failed.get("index").cloned(), row.cloned())
        })
        .collect();
    let at = |frame, row| (Some(Json::from(frame)), Some(Json::from(row)));
    assert_eq!(places, [at(0, 0), at(2, 0)]);
}

/// Who is faster does not show in the result.
#[test]
fn failed_rows_are_told_in_the_order_of_frames() {
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let fails = |call: &Call<'_>| match call.label {
        "each" => boom(),
        _ => Play::AsWritten,
    };
    let mut sim = Sim::of(&body(4, 2, rest)).with_tools(fails);
    sim.start().unwrap();
    let leases: Vec<_> = sim
        .available()
        .into_iter()
        .map(|command| sim.lease(command, "w1"))
        .collect();
    for lease in leases.iter().rev() {
        let report = sim.work(lease).unwrap();
        assert_eq!(sim.report(report), Ok(Verdict::Accepted));
    }
    sim.finish();
    let data = result(&sim);
    let errors = data.get("errors").and_then(Json::as_list).unwrap();
    let frames: Vec<_> = errors
        .iter()
        .map(|failed| failed.get("index").and_then(Json::as_i64))
        .collect();
    assert_eq!(frames, [Some(0), Some(0), Some(1), Some(1)]);
    sim.decide_again();
}

/// A claim that fails would fail for ever: it ends its chain.
#[test]
fn claims_that_fail_end_their_chains() {
    let fails = |call: &Call<'_>| match (call.label, call.index) {
        ("claim", Some(0)) => Play::fail(TaskErrorKind::DbConnection, "no database"),
        _ => Play::AsWritten,
    };
    let fast = Sim::of(&body(4, 1, "")).with_tools(fails).run();
    assert_eq!(fast.status(), ExecutionStatus::Failed);
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let slow = Sim::of(&body(6, 2, rest)).with_tools(fails).run();
    assert_eq!(
        result(&slow).get("stats"),
        Some(&json(r#"{"failed":1,"frames":3,"success":4,"total":5}"#))
    );
}

#[test]
fn a_lost_frame_is_claimed_again() {
    let loses = |call: &Call<'_>| {
        let is_first = call.label == "each" && call.index == Some(0) && call.command_attempt == 1;
        if is_first {
            Play::Lost
        } else {
            Play::AsWritten
        }
    };
    let sim = Sim::of(&body(3, 1, "")).with_tools(loses).run();
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
    let text = body(3, 1, "").replace("max_rows: 2", "max_rows: 2, retry_mode: none");
    let once = Sim::of(&text).with_tools(loses).run();
    assert_eq!(once.status(), ExecutionStatus::Failed);
}

/// A worker that knows nothing of rows says in its data when none is left.
#[test]
fn a_drained_cursor_in_the_data() {
    let mut sim = Sim::of(&body(9, 1, ""));
    sim.start().unwrap();
    for data in ["{\"row_count\":2}", "{\"__cursor_drained\":true}"] {
        let lease = sim.lease(sim.available()[0], "classic");
        let mut report = sim.work(&lease).unwrap();
        if let ReportOutcome::Completed(result) = &mut report.outcome {
            result.frame = None;
            result.data = json(data).into();
        }
        assert_eq!(sim.report(report.clone()), Ok(Verdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a_second_report_of_a_frame_is_recognised() {
    let mut sim = Sim::of(&body(9, 1, ""));
    sim.start().unwrap();
    let lease = sim.lease(sim.available()[0], "w1");
    let report = sim.work(&lease).unwrap();
    assert_eq!(sim.report(report.clone()), Ok(Verdict::Accepted));
    assert_eq!(sim.report(report.clone()), Ok(Verdict::Duplicate));
    let mut other = report;
    if let ReportOutcome::Completed(result) = &mut other.outcome {
        result.frame.as_mut().unwrap().rows = 7;
    }
    assert!(matches!(sim.report(other), Ok(Verdict::Ignored(_))));
}

/// Frames that end while the run is paused are followed up at resume, each in its turn.
#[test]
fn frames_that_end_during_a_pause() {
    let mut sim = Sim::of(&body(5, 2, ""));
    sim.start().unwrap();
    let commands = sim.available();
    let leases: Vec<_> = commands.iter().map(|id| sim.lease(*id, "w1")).collect();
    sim.pause().unwrap();
    for lease in leases.iter().rev() {
        let report = sim.work(lease).unwrap();
        sim.report(report).unwrap();
    }
    sim.resume().unwrap();
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(
        result(&sim).get("stats"),
        Some(&json(r#"{"failed":0,"frames":3,"success":5,"total":5}"#))
    );
}

#[test]
fn a_cursor_that_is_out_of_time_is_withdrawn() {
    let mut sim = Sim::of(&body(9, 2, "    spec: { timeout: 10s }\n"));
    sim.start().unwrap();
    sim.step();
    sim.advance(Millis::from_secs(10));
    assert!(matches!(sim.timers()[..], [TimerId::Step { .. }]));
    sim.fire_timers();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.state().open_commands(), 0);
}

/// What a frame asks for may be a template, and shrinks where its budget is passed.
#[test]
fn frames_ask_for_fewer_rows_when_they_are_too_big() {
    let text = body(100, 1, "")
        .replace("max_rows: 2", "max_rows: \"{{ 3 * 4 }}\", max_bytes: 50")
        .replace("workflow:", "workload: { a: 1 }\nworkflow:");
    let mut sim = Sim::of(&text);
    sim.start().unwrap();
    let asks = |sim: &Sim| -> Vec<u32> {
        let issued = sim.log().iter().filter_map(|event| match &event.kind {
            EventKind::CommandIssued(issued) => issued.frame,
            _ => None,
        });
        issued.map(|frame| frame.max_rows).collect()
    };
    sim.step();
    sim.step();
    let asks = asks(&sim);
    assert_eq!(asks[0], 12);
    assert!(asks[1] < 12 && asks[1] > 1, "{asks:?}");
    let step = sim.plan().find("each").unwrap();
    let run = sim.state().step(step).unwrap().run.as_ref().unwrap();
    assert!(matches!(&run.work, Work::Cursor(cursor) if cursor.terms.max_rows == 12));
}

#[test]
fn a_setting_of_a_frame_that_makes_no_sense_fails_the_step() {
    let text = body(3, 1, "").replace("max_rows: 2", "max_rows: \"{{ 'many' }}\"");
    let sim = Sim::of(&text).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(
        sim.table().contains("loop.spec.frame.max_rows"),
        "{}",
        sim.table()
    );
}

/// An uncaught failure elsewhere: open frames finish, and no new one is issued.
#[test]
fn a_failure_elsewhere_ends_the_chains() {
    let text = format!(
        "{}  - {{ step: bad, tool: {{ kind: shell, command: x }} }}\n",
        body(9, 2, "").replace(
            "workflow:",
            "workflow:\n  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: bad }, { step: each }] } }",
        )
    );
    let tools = |call: &Call<'_>| {
        if call.step == "bad" {
            boom()
        } else {
            Play::AsWritten
        }
    };
    let sim = Sim::of(&text).with_tools(tools).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    insta::assert_snapshot!(sim.table());
    sim.decide_again();
}

#[test]
fn cancelling_withdraws_open_frames() {
    let mut sim = Sim::of(&body(9, 3, ""));
    sim.start().unwrap();
    assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
    assert_eq!(sim.state().open_commands(), 0);
    let withdrawn =
        |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandCancelled(_));
    assert_eq!(sim.log().iter().filter(withdrawn).count(), 3);
    assert!(matches!(
        sim.decide(Input::TimerFired(TimerId::Execution)),
        Err(noetl_engine::Refused::AlreadyEnded(_))
    ));
}
