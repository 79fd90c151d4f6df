//! Loops over a cursor: chains of frames and their rows.

use noetl_engine::event::TimerId;
use noetl_engine::{EngineInput, EventKind, InputVerdict, ReportOutcome, StepWork};
use noetl_testkit::sim::{SimulatedCall, Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, Millis, TaskErrorKind};

use crate::decisions::parse_json;

/// A playbook over a table of `rows` rows, claimed two at a time. `rest` is appended to the step.
fn cursor_playbook(rows: u32, chains: u32, rest: &str) -> String {
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

fn fail_task() -> ToolBehavior {
    ToolBehavior::failure(TaskErrorKind::Transform, "boom")
}

fn execution_result(sim: &Simulation) -> Json {
    let last = sim.log().last().unwrap();
    match &last.kind {
        EventKind::PlaybookCompleted { result: Some(noetl_engine::EventData::Inline(value)) } => {
            value.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn single_chain_processes_all_rows() {
    let sim = Simulation::from_body(&cursor_playbook(3, 1, "")).run();
    insta::assert_snapshot!(sim.format_log());
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(
        execution_result(&sim),
        parse_json(
            r#"{"data":[],"results":[],"stats":{"failed":0,"frames":2,"success":3,"total":3}}"#
        )
    );
    sim.repeat_decisions();
}

#[test]
fn each_chain_ends_with_empty_frame() {
    let sim = Simulation::from_body(&cursor_playbook(5, 2, "")).run();
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
}

#[test]
fn cursor_without_rows_completes() {
    let sim = Simulation::from_body(&cursor_playbook(0, 3, "")).run();
    assert_eq!(
        execution_result(&sim).get("stats"),
        Some(&parse_json(r#"{"failed":0,"frames":0,"success":0,"total":0}"#))
    );
    let issued = |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandIssued(_));
    assert_eq!(sim.log().iter().filter(issued).count(), 3);
}

#[test]
fn process_frame_passes_all_rows_at_once() {
    let text = cursor_playbook(3, 1, "").replace("max_rows: 2", "max_rows: 2, process: frame");
    let text = text.replace("{{ row.id }}", "{{ row | map(attribute='id') | list }}");
    let sim = Simulation::from_body(&text).run();
    let data: Vec<String> = sim
        .log()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::CallDone(done) => Some(format!("{:?}", done.outcome.data)),
            _ => None,
        })
        .collect();
    assert_eq!(data.len(), 3);
    assert_eq!(sim.state().ctx(), &parse_json(r#"{"last":[2]}"#));
}

#[test]
fn failed_frame_fails_step() {
    let fails = |call: &SimulatedCall<'_>| match (call.label, call.index) {
        ("each", Some(1)) => fail_task(),
        _ => ToolBehavior::Configured,
    };
    let sim = Simulation::from_body(&cursor_playbook(8, 2, "")).with_tools(fails).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
}

#[test]
fn best_effort_counts_failed_rows() {
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let fails = |call: &SimulatedCall<'_>| match call.config.get("result").and_then(Json::as_i64) {
        Some(0 | 4) if call.label == "each" => fail_task(),
        _ => ToolBehavior::Configured,
    };
    let sim = Simulation::from_body(&cursor_playbook(5, 1, rest)).with_tools(fails).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let data = execution_result(&sim);
    assert_eq!(
        data.get("stats"),
        Some(&parse_json(r#"{"failed":2,"frames":3,"success":3,"total":5}"#))
    );
    let errors = data.get("errors").and_then(Json::as_list).unwrap();
    let positions: Vec<_> = errors
        .iter()
        .map(|failed| {
            let row = failed.get("error").and_then(|error| error.get("details")?.get("row"));
            (failed.get("index").cloned(), row.cloned())
        })
        .collect();
    let position = |frame, row| (Some(Json::from(frame)), Some(Json::from(row)));
    assert_eq!(positions, [position(0, 0), position(2, 0)]);
}

/// The result does not depend on the order of reports.
#[test]
fn failed_rows_are_ordered_by_frame() {
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let fails = |call: &SimulatedCall<'_>| match call.label {
        "each" => fail_task(),
        _ => ToolBehavior::Configured,
    };
    let mut sim = Simulation::from_body(&cursor_playbook(4, 2, rest)).with_tools(fails);
    sim.start().unwrap();
    let leases: Vec<_> = sim
        .available_commands()
        .into_iter()
        .map(|command| sim.lease_command(command, "w1"))
        .collect();
    for lease in leases.iter().rev() {
        let report = sim.execute_lease(lease).unwrap();
        assert_eq!(sim.submit_report(report), Ok(InputVerdict::Accepted));
    }
    sim.run_to_end();
    let data = execution_result(&sim);
    let errors = data.get("errors").and_then(Json::as_list).unwrap();
    let frames: Vec<_> =
        errors.iter().map(|failed| failed.get("index").and_then(Json::as_i64)).collect();
    assert_eq!(frames, [Some(0), Some(0), Some(1), Some(1)]);
    sim.repeat_decisions();
}

/// A failed claim ends its chain, since it would fail again.
#[test]
fn failed_claim_ends_its_chain() {
    let fails = |call: &SimulatedCall<'_>| match (call.label, call.index) {
        ("claim", Some(0)) => ToolBehavior::failure(TaskErrorKind::DbConnection, "no database"),
        _ => ToolBehavior::Configured,
    };
    let fail_fast = Simulation::from_body(&cursor_playbook(4, 1, "")).with_tools(fails).run();
    assert_eq!(fail_fast.status(), ExecutionStatus::Failed);
    let rest = "    spec: { policy: { failure: { mode: best_effort } } }\n";
    let best_effort = Simulation::from_body(&cursor_playbook(6, 2, rest)).with_tools(fails).run();
    assert_eq!(
        execution_result(&best_effort).get("stats"),
        Some(&parse_json(r#"{"failed":1,"frames":3,"success":4,"total":5}"#))
    );
}

#[test]
fn lost_frame_is_claimed_again() {
    let loses = |call: &SimulatedCall<'_>| {
        let is_first = call.label == "each" && call.index == Some(0) && call.command_attempt == 1;
        if is_first { ToolBehavior::Lost } else { ToolBehavior::Configured }
    };
    let sim = Simulation::from_body(&cursor_playbook(3, 1, "")).with_tools(loses).run();
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
    let text = cursor_playbook(3, 1, "").replace("max_rows: 2", "max_rows: 2, retry_mode: none");
    let once = Simulation::from_body(&text).with_tools(loses).run();
    assert_eq!(once.status(), ExecutionStatus::Failed);
}

/// A worker without frame reports marks the end of the rows in its data.
#[test]
fn drained_marker_in_data_ends_cursor() {
    let mut sim = Simulation::from_body(&cursor_playbook(9, 1, ""));
    sim.start().unwrap();
    for data in ["{\"row_count\":2}", "{\"__cursor_drained\":true}"] {
        let lease = sim.lease_command(sim.available_commands()[0], "classic");
        let mut report = sim.execute_lease(&lease).unwrap();
        if let ReportOutcome::Completed(result) = &mut report.outcome {
            result.frame = None;
            result.data = parse_json(data).into();
        }
        assert_eq!(sim.submit_report(report.clone()), Ok(InputVerdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn duplicate_frame_report_is_recognised() {
    let mut sim = Simulation::from_body(&cursor_playbook(9, 1, ""));
    sim.start().unwrap();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = sim.execute_lease(&lease).unwrap();
    assert_eq!(sim.submit_report(report.clone()), Ok(InputVerdict::Accepted));
    assert_eq!(sim.submit_report(report.clone()), Ok(InputVerdict::Duplicate));
    let mut other = report;
    if let ReportOutcome::Completed(result) = &mut other.outcome {
        result.frame.as_mut().unwrap().rows = 7;
    }
    assert!(matches!(sim.submit_report(other), Ok(InputVerdict::Ignored(_))));
}

#[test]
fn frames_ending_during_pause_continue_at_resume() {
    let mut sim = Simulation::from_body(&cursor_playbook(5, 2, ""));
    sim.start().unwrap();
    let commands = sim.available_commands();
    let leases: Vec<_> = commands.iter().map(|id| sim.lease_command(*id, "w1")).collect();
    sim.pause_execution().unwrap();
    for lease in leases.iter().rev() {
        let report = sim.execute_lease(lease).unwrap();
        sim.submit_report(report).unwrap();
    }
    sim.resume_execution().unwrap();
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(
        execution_result(&sim).get("stats"),
        Some(&parse_json(r#"{"failed":0,"frames":3,"success":5,"total":5}"#))
    );
}

#[test]
fn step_timeout_cancels_open_frames() {
    let mut sim = Simulation::from_body(&cursor_playbook(9, 2, "    spec: { timeout: 10s }\n"));
    sim.start().unwrap();
    sim.advance_once();
    sim.advance_clock(Millis::from_secs(10));
    assert!(matches!(sim.open_timers()[..], [TimerId::Step { .. }]));
    sim.fire_timers();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.state().open_command_count(), 0);
}

/// The requested rows may be a template and shrink if a frame exceeds its byte budget.
#[test]
fn oversized_frames_request_fewer_rows() {
    let text = cursor_playbook(100, 1, "")
        .replace("max_rows: 2", "max_rows: \"{{ 3 * 4 }}\", max_bytes: 50")
        .replace("workflow:", "workload: { a: 1 }\nworkflow:");
    let mut sim = Simulation::from_body(&text);
    sim.start().unwrap();
    let requested_rows = |sim: &Simulation| -> Vec<u32> {
        let issued = sim.log().iter().filter_map(|event| match &event.kind {
            EventKind::CommandIssued(issued) => issued.frame,
            _ => None,
        });
        issued.map(|frame| frame.max_rows).collect()
    };
    sim.advance_once();
    sim.advance_once();
    let requested_rows = requested_rows(&sim);
    assert_eq!(requested_rows[0], 12);
    assert!(requested_rows[1] < 12 && requested_rows[1] > 1, "{requested_rows:?}");
    let step = sim.plan().find_step("each").unwrap();
    let pass = sim.state().step_state(step).unwrap().run.as_ref().unwrap();
    assert!(matches!(&pass.work, StepWork::Cursor(cursor) if cursor.terms.max_rows == 12));
}

#[test]
fn invalid_frame_setting_fails_step() {
    let text = cursor_playbook(3, 1, "").replace("max_rows: 2", "max_rows: \"{{ 'many' }}\"");
    let sim = Simulation::from_body(&text).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.format_log().contains("loop.spec.frame.max_rows"), "{}", sim.format_log());
}

/// After an uncaught failure of another step, open frames finish and no new one is issued.
#[test]
fn failure_of_other_step_ends_chains() {
    let text = format!(
        "{}  - {{ step: bad, tool: {{ kind: shell, command: x }} }}\n",
        cursor_playbook(9, 2, "").replace(
            "workflow:",
            "workflow:\n  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: bad }, { step: each }] } }",
        )
    );
    let tools = |call: &SimulatedCall<'_>| {
        if call.step == "bad" { fail_task() } else { ToolBehavior::Configured }
    };
    let sim = Simulation::from_body(&text).with_tools(tools).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    insta::assert_snapshot!(sim.format_log());
    sim.repeat_decisions();
}

#[test]
fn cancel_withdraws_open_frames() {
    let mut sim = Simulation::from_body(&cursor_playbook(9, 3, ""));
    sim.start().unwrap();
    assert_eq!(sim.cancel_execution(), Ok(InputVerdict::Accepted));
    assert_eq!(sim.state().open_command_count(), 0);
    let cancelled =
        |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandCancelled(_));
    assert_eq!(sim.log().iter().filter(cancelled).count(), 3);
    assert!(matches!(
        sim.decide(EngineInput::TimerFired(TimerId::Execution)),
        Err(noetl_engine::DecisionError::AlreadyEnded(_))
    ));
}
