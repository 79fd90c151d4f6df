//! Signals: which wait takes which.

use noetl_engine::{
    Errand, Input, LookBack, MAX_KEPT_SIGNALS, MAX_SIGNAL_BYTES, Refused, Signal, Verdict,
};
use noetl_testkit::sim::Sim;
use noetl_types::{ErrorCode, ExecutionStatus, Json, Millis, SignalId};

use super::{begun, json, last_data};

const ACCEPTED: Result<Verdict, Refused> = Ok(Verdict::Accepted);
const KEPT: Result<Verdict, Refused> = Ok(Verdict::Kept);

fn broadcast(id: i64, name: &str, ago: u64, sim: &Sim) -> Input {
    Input::Signal(Box::new(Signal {
        broadcast: Some(SignalId::new(id).unwrap()),
        received_at: Some(sim.now().saturating_sub(Millis::from_secs(ago))),
        ..Signal::new(name)
    }))
}

#[test]
fn any_takes_the_first_of_its_names() {
    let mut sim = begun(
        "workflow: [{ step: w, tool: { kind: wait, mode: any, signals: [{ name: paid }, { name: voided }] } }]",
    );
    assert_eq!(sim.signal("other", None, Json::Null), KEPT);
    assert_eq!(sim.signal("voided", Some("k"), Json::from(5)), ACCEPTED);
    let data = last_data(&sim);
    assert_eq!(data.get("name"), Some(&Json::from("voided")));
    assert_eq!(data.get("key"), Some(&Json::from("k")));
    assert_eq!(data.get("payload"), Some(&Json::from(5)));
    assert_eq!(data.get("received_at"), Some(&Json::from(sim.now())));
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn all_takes_each_once_and_doubled_signals_are_kept() {
    let mut sim = begun(
        "workflow: [{ step: w, tool: { kind: wait, mode: all, signals: [{ name: a }, { name: b, as: second }, { name: a, key: k, as: third }] } }]",
    );
    assert_eq!(sim.signal("a", None, Json::from(1)), ACCEPTED);
    assert_eq!(sim.signal("a", None, Json::from(2)), KEPT);
    assert_eq!(sim.signal("a", Some("k"), Json::from(3)), ACCEPTED);
    let open: Vec<_> = sim.state().waits().flat_map(|wait| wait.names()).collect();
    assert_eq!(open, [("b", None)]);
    assert_eq!(sim.signal("b", None, Json::from(4)), ACCEPTED);
    let data = last_data(&sim);
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
fn a_signal_is_for_one_wait_the_oldest_first() {
    let mut sim = begun(TWO_WAITS);
    sim.finish();
    assert_eq!(sim.state().waits().count(), 2);
    assert_eq!(sim.signal("go", None, Json::Null), ACCEPTED);
    let left: Vec<_> = sim.state().waits().map(|wait| wait.step.0).collect();
    assert_eq!(left, [2]);
    assert_eq!(sim.signal("go", None, Json::Null), ACCEPTED);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

const LOOK_BACK: &str = r"
workflow:
  - { step: first, tool: { kind: noop }, next: { arcs: [{ step: w }] } }
  - { step: w, tool: { kind: wait, signal: go, lookback: 1m }, next: { arcs: [{ step: v }] } }
  - { step: v, tool: { kind: wait, signal: go, lookback: 1m } }
";

#[test]
fn look_back_takes_the_oldest_within_its_reach_and_each_once() {
    let mut sim = begun(LOOK_BACK);
    for (payload, pause) in [(1, 30), (2, 20), (3, 20)] {
        assert_eq!(sim.signal("go", None, Json::from(payload)), KEPT);
        sim.advance(Millis::from_secs(pause));
    }
    // The first is 70 s old by now, the others 40 s and 20 s.
    sim.finish();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let output = |step: u32| {
        let state = sim.state().step(noetl_playbook::graph::StepIndex(step));
        match &state.unwrap().output.as_ref().unwrap().data {
            noetl_engine::Data::Inline(data) => data.get("payload").cloned(),
            noetl_engine::Data::External(_) => None,
        }
    };
    assert_eq!(
        (output(1), output(2)),
        (Some(Json::from(2)), Some(Json::from(3)))
    );
    let kept: Vec<_> = sim
        .state()
        .kept_signals()
        .map(|(_, kept)| kept.payload.clone())
        .collect();
    assert_eq!(kept, [Json::from(1)]);
}

#[test]
fn without_look_back_nothing_that_came_before_counts() {
    let mut sim = begun(&LOOK_BACK.replace(", lookback: 1m", ""));
    assert_eq!(sim.signal("go", None, Json::Null), KEPT);
    sim.finish();
    assert_eq!(sim.state().waits().count(), 1);
    assert!(sim.errands().is_empty());
}

#[test]
fn broadcasts_from_before_are_asked_for_and_taken_once() {
    let mut sim = begun(LOOK_BACK);
    sim.finish();
    let wait = sim.state().waits().next().unwrap().command;
    let since = sim.now().saturating_sub(Millis::from_minutes(1));
    let asked = Errand::LookBack(LookBack {
        command: wait,
        names: vec![("go".into(), None)],
        since,
    });
    assert_eq!(sim.errands(), [asked]);
    let too_old = broadcast(1, "go", 61, &sim);
    assert_eq!(sim.decide(too_old), Err(Refused::NotAwaited));
    let fits = broadcast(2, "go", 59, &sim);
    assert_eq!(sim.decide(fits.clone()), ACCEPTED);
    // The second wait would take it as well.
    assert_eq!(sim.state().waits().count(), 1);
    assert_eq!(sim.decide(fits), Ok(Verdict::Duplicate));
    let next = broadcast(3, "go", 0, &sim);
    assert_eq!(sim.decide(next), ACCEPTED);
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}

#[test]
fn a_broadcast_that_nobody_waits_for_is_not_kept() {
    let mut sim = begun(LOOK_BACK);
    let before = sim.log().len();
    let early = broadcast(1, "go", 0, &sim);
    assert_eq!(sim.decide(early), Err(Refused::NotAwaited));
    assert_eq!(sim.log().len(), before);
}

#[test]
fn the_oldest_of_too_many_signals_is_forgotten() {
    let mut sim = begun(LOOK_BACK).lightly();
    for payload in 0..=MAX_KEPT_SIGNALS {
        assert_eq!(sim.signal("go", None, Json::from(payload)), KEPT);
    }
    let mut kept = sim.state().kept_signals();
    assert_eq!(kept.next().unwrap().1.payload, Json::from(1));
    assert_eq!(kept.count(), MAX_KEPT_SIGNALS - 1);
}

#[test]
fn what_a_sender_may_not_send() {
    let mut sim = begun(
        r"
workflow:
  - { step: w, tool: { kind: wait, signal: go, schema: { type: object, required: [n], properties: { n: { type: integer } } } } }
",
    );
    for name in ["approval", "child.ended"] {
        let refused = sim.signal(name, None, Json::Null).unwrap_err();
        assert_eq!(refused, Refused::ReservedSignal(name.into()));
        assert_eq!(refused.code(), ErrorCode::Validation);
    }
    let refused = sim.signal("go", None, json(r#"{"n":"x"}"#)).unwrap_err();
    assert!(
        matches!(
            refused,
            Refused::BadMessage {
                what: "payload",
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(refused.code(), ErrorCode::Validation);
    let large = Json::from("x".repeat(MAX_SIGNAL_BYTES + 1));
    let refused = sim.signal("go", None, large).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TooLarge);
    assert_eq!(sim.log().len(), 3);
    assert_eq!(sim.signal("go", None, json(r#"{"n":1}"#)), ACCEPTED);
    let refused = sim.signal("go", None, Json::Null).unwrap_err();
    assert_eq!(refused, Refused::AlreadyEnded(ExecutionStatus::Completed));
}

/// Kept before anybody said what it should look like: such a one is passed over.
#[test]
fn look_back_passes_over_what_breaks_the_schema() {
    let mut sim =
        begun(&LOOK_BACK.replace("lookback: 1m", "lookback: 1m, schema: { type: integer }"));
    assert_eq!(sim.signal("go", None, Json::from("text")), KEPT);
    assert_eq!(sim.signal("go", None, Json::from(7)), KEPT);
    sim.finish();
    assert_eq!(last_data(&sim).get("payload"), Some(&Json::from(7)));
    assert_eq!(sim.state().waits().count(), 1);
}

#[test]
fn a_wait_that_cannot_be_understood_fails_by_its_policy() {
    let rule = "spec: { policy: { rules: [{ else: { do: continue } }] } }";
    for (config, kind) in [
        ("signal: \"{{ nothing.at.all }}\"", "signal"),
        ("signal: go, lookback: \"{{ 'soon' }}\"", "lookback"),
        ("signal: \"{{ 'appr' ~ 'oval' }}\"", "reserved"),
        ("signal: go, schema: { type: 7 }", "JSON Schema"),
    ] {
        let sim = begun(&format!(
            "workflow: [{{ step: w, tool: {{ kind: wait, {config} }} }}]"
        ));
        assert_eq!(sim.status(), ExecutionStatus::Failed, "{}", sim.table());
        assert!(sim.table().contains(kind), "{kind}: {}", sim.table());
        let sim = begun(&format!(
            "workflow: [{{ step: w, tool: {{ kind: wait, {config}, {rule} }} }}]"
        ));
        assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    }
}
