//! Delivery of signals to waits.

use noetl_engine::{
    BroadcastLookback, DecisionError, EngineInput, FollowUp, IncomingSignal, InputVerdict,
    MAX_BUFFERED_SIGNAL_BYTES, MAX_BUFFERED_SIGNALS, MAX_SIGNAL_BYTES,
};
use noetl_testkit::sim::Simulation;
use noetl_types::{ErrorCode, ExecutionStatus, Json, Millis, SignalId};

use super::{last_call_data, parse_json, started_sim};

const ACCEPTED: Result<InputVerdict, DecisionError> = Ok(InputVerdict::Accepted);
const BUFFERED: Result<InputVerdict, DecisionError> = Ok(InputVerdict::Buffered);

fn broadcast_signal(id: i64, name: &str, ago: u64, sim: &Simulation) -> EngineInput {
    EngineInput::Signal(Box::new(IncomingSignal {
        broadcast: Some(SignalId::new(id).unwrap()),
        received_at: Some(sim.now().saturating_sub(Millis::from_secs(ago))),
        ..IncomingSignal::new(name)
    }))
}

#[test]
fn any_mode_completes_on_first_signal() {
    let mut sim = started_sim(
        "workflow: [{ step: w, tool: { kind: wait, mode: any, signals: [{ name: paid }, { name: voided }] } }]",
    );
    assert_eq!(sim.send_signal("other", None, Json::Null), BUFFERED);
    assert_eq!(sim.send_signal("voided", Some("k"), Json::from(5)), ACCEPTED);
    let data = last_call_data(&sim);
    assert_eq!(data.get("name"), Some(&Json::from("voided")));
    assert_eq!(data.get("key"), Some(&Json::from("k")));
    assert_eq!(data.get("payload"), Some(&Json::from(5)));
    assert_eq!(data.get("received_at"), Some(&Json::from(sim.now())));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn all_mode_takes_each_once_and_buffers_duplicates() {
    let mut sim = started_sim(
        "workflow: [{ step: w, tool: { kind: wait, mode: all, signals: [{ name: a }, { name: b, as: second }, { name: a, key: k, as: third }] } }]",
    );
    assert_eq!(sim.send_signal("a", None, Json::from(1)), ACCEPTED);
    assert_eq!(sim.send_signal("a", None, Json::from(2)), BUFFERED);
    assert_eq!(sim.send_signal("a", Some("k"), Json::from(3)), ACCEPTED);
    let open: Vec<_> = sim.state().open_waits().flat_map(|wait| wait.awaited_names()).collect();
    assert_eq!(open, [("b", None)]);
    assert_eq!(sim.send_signal("b", None, Json::from(4)), ACCEPTED);
    let data = last_call_data(&sim);
    let payload = |label: &str| data.get(label).unwrap().get("payload").cloned();
    assert_eq!(payload("a"), Some(Json::from(1)));
    assert_eq!(payload("second"), Some(Json::from(4)));
    assert_eq!(payload("third"), Some(Json::from(3)));
}

const TWO_WAITS: &str = r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: one }, { step: two }] }
  - { step: one, tool: { kind: wait, signal: go } }
  - { step: two, tool: { kind: wait, signal: go } }
";

#[test]
fn signal_goes_to_oldest_wait_only() {
    let mut sim = started_sim(TWO_WAITS);
    sim.run_to_end();
    assert_eq!(sim.state().open_waits().count(), 2);
    assert_eq!(sim.send_signal("go", None, Json::Null), ACCEPTED);
    let open: Vec<_> = sim.state().open_waits().map(|wait| wait.step.0).collect();
    assert_eq!(open, [2]);
    assert_eq!(sim.send_signal("go", None, Json::Null), ACCEPTED);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

const LOOKBACK: &str = r"
workflow:
  - { step: first, tool: { kind: noop }, next: { arcs: [{ step: w }] } }
  - { step: w, tool: { kind: wait, signal: go, lookback: 1m }, next: { arcs: [{ step: v }] } }
  - { step: v, tool: { kind: wait, signal: go, lookback: 1m } }
";

#[test]
fn lookback_takes_oldest_within_window_once() {
    let mut sim = started_sim(LOOKBACK);
    for (payload, pause) in [(1, 30), (2, 20), (3, 20)] {
        assert_eq!(sim.send_signal("go", None, Json::from(payload)), BUFFERED);
        sim.advance_clock(Millis::from_secs(pause));
    }
    // The first is 70 s old by now, the others 40 s and 20 s.
    sim.run_to_end();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let output = |step: u32| {
        let state = sim.state().step_state(noetl_playbook::graph::StepIndex(step));
        match &state.unwrap().output.as_ref().unwrap().data {
            noetl_engine::EventData::Inline(data) => data.get("payload").cloned(),
            noetl_engine::EventData::External(_) => None,
        }
    };
    assert_eq!((output(1), output(2)), (Some(Json::from(2)), Some(Json::from(3))));
    let buffered: Vec<_> =
        sim.state().buffered_signals().map(|(_, buffered)| buffered.payload.clone()).collect();
    assert_eq!(buffered, [Json::from(1)]);
}

#[test]
fn earlier_signals_need_lookback() {
    let mut sim = started_sim(&LOOKBACK.replace(", lookback: 1m", ""));
    assert_eq!(sim.send_signal("go", None, Json::Null), BUFFERED);
    sim.run_to_end();
    assert_eq!(sim.state().open_waits().count(), 1);
    assert!(sim.follow_ups().is_empty());
}

#[test]
fn lookback_requests_broadcasts_and_takes_one_once() {
    let mut sim = started_sim(LOOKBACK);
    sim.run_to_end();
    let wait = sim.state().open_waits().next().unwrap().command;
    let since = sim.now().saturating_sub(Millis::from_minutes(1));
    let expected = FollowUp::DeliverBroadcasts(BroadcastLookback {
        command: wait,
        names: vec![("go".into(), None)],
        since,
    });
    assert_eq!(sim.follow_ups(), [expected]);
    let too_old = broadcast_signal(1, "go", 61, &sim);
    assert_eq!(sim.decide(too_old), Err(DecisionError::NotAwaited));
    let in_window = broadcast_signal(2, "go", 59, &sim);
    assert_eq!(sim.decide(in_window.clone()), ACCEPTED);
    // The second wait would take it as well.
    assert_eq!(sim.state().open_waits().count(), 1);
    assert_eq!(sim.decide(in_window), Ok(InputVerdict::Duplicate));
    let next = broadcast_signal(3, "go", 0, &sim);
    assert_eq!(sim.decide(next), ACCEPTED);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn unawaited_broadcast_is_not_buffered() {
    let mut sim = started_sim(LOOKBACK);
    let before = sim.log().len();
    let early = broadcast_signal(1, "go", 0, &sim);
    assert_eq!(sim.decide(early), Err(DecisionError::NotAwaited));
    assert_eq!(sim.log().len(), before);
}

#[test]
fn full_buffer_rejects_signals() {
    let full = Err(DecisionError::TooManySignals {
        limit: MAX_BUFFERED_SIGNALS,
        limit_bytes: MAX_BUFFERED_SIGNAL_BYTES,
    });
    let mut sim = started_sim(LOOKBACK).with_light_checks();
    for payload in 0..MAX_BUFFERED_SIGNALS {
        assert_eq!(sim.send_signal("go", None, Json::from(payload)), BUFFERED);
    }
    let events = sim.log().len();
    assert_eq!(sim.send_signal("go", None, Json::Null), full);
    assert_eq!(sim.log().len(), events);
    assert_eq!(sim.state().buffered_signals().count(), MAX_BUFFERED_SIGNALS);

    let mut sim = started_sim(LOOKBACK).with_light_checks();
    let payload = Json::from("x".repeat(MAX_SIGNAL_BYTES - 2));
    for _ in 0..MAX_BUFFERED_SIGNAL_BYTES / MAX_SIGNAL_BYTES {
        assert_eq!(sim.send_signal("go", None, payload.clone()), BUFFERED);
    }
    // The buffer has room for no byte.
    assert_eq!(sim.send_signal("go", None, payload), full);
}

#[test]
fn rejects_reserved_invalid_and_oversized_signals() {
    let mut sim = started_sim(
        r"
workflow:
  - { step: w, tool: { kind: wait, signal: go, schema: { type: object, required: [n], properties: { n: { type: integer } } } } }
",
    );
    for name in ["approval", "child.ended"] {
        let error = sim.send_signal(name, None, Json::Null).unwrap_err();
        assert_eq!(error, DecisionError::ReservedSignal(name.into()));
        assert_eq!(error.code(), ErrorCode::Validation);
    }
    let error = sim.send_signal("go", None, parse_json(r#"{"n":"x"}"#)).unwrap_err();
    assert!(matches!(error, DecisionError::SchemaMismatch { what: "payload", .. }), "{error}");
    assert_eq!(error.code(), ErrorCode::Validation);
    let large = Json::from("x".repeat(MAX_SIGNAL_BYTES + 1));
    let error = sim.send_signal("go", None, large).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooLarge);
    assert_eq!(sim.log().len(), 3);
    assert_eq!(sim.send_signal("go", None, parse_json(r#"{"n":1}"#)), ACCEPTED);
    let error = sim.send_signal("go", None, Json::Null).unwrap_err();
    assert_eq!(error, DecisionError::AlreadyEnded(ExecutionStatus::Completed));
}

/// Signals are buffered before a wait declares its schema, so lookback skips those that violate it.
#[test]
fn lookback_skips_signals_that_violate_schema() {
    let mut sim =
        started_sim(&LOOKBACK.replace("lookback: 1m", "lookback: 1m, schema: { type: integer }"));
    assert_eq!(sim.send_signal("go", None, Json::from("text")), BUFFERED);
    assert_eq!(sim.send_signal("go", None, Json::from(7)), BUFFERED);
    sim.run_to_end();
    assert_eq!(last_call_data(&sim).get("payload"), Some(&Json::from(7)));
    assert_eq!(sim.state().open_waits().count(), 1);
}

#[test]
fn invalid_wait_config_follows_error_policy() {
    let rule = "spec: { policy: { rules: [{ else: { do: continue } }] } }";
    for (config, kind) in [
        ("signal: \"{{ nothing.at.all }}\"", "signal"),
        ("signal: go, lookback: \"{{ 'soon' }}\"", "lookback"),
        ("signal: \"{{ 'appr' ~ 'oval' }}\"", "reserved"),
        ("signal: go, schema: { type: '{{ 7 }}' }", "JSON Schema"),
    ] {
        let sim =
            started_sim(&format!("workflow: [{{ step: w, tool: {{ kind: wait, {config} }} }}]"));
        assert_eq!(sim.status(), ExecutionStatus::Failed, "{}", sim.format_log());
        assert!(sim.format_log().contains(kind), "{kind}: {}", sim.format_log());
        let sim = started_sim(&format!(
            "workflow: [{{ step: w, tool: {{ kind: wait, {config}, {rule} }} }}]"
        ));
        assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    }
}
