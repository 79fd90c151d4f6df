//! Approvals: who may decide, and when it is decided.

use noetl_engine::{Approve, Decided, Input, Refused, Verdict, WaitKind};
use noetl_types::{ErrorCode, ExecutionStatus, Json, Text};

use super::{begun, json, last_data};

fn decision(actor: &str, decision: Decided) -> Approve {
    Approve {
        step: "ask".parse().unwrap(),
        index: None,
        decision,
        actor: actor.into(),
        groups: Vec::new(),
        comment: None,
        values: None,
    }
}

fn input(approve: Approve) -> Input {
    Input::Approve(Box::new(approve))
}

#[test]
fn a_quorum_approves() {
    let mut sim = begun("workflow: [{ step: ask, tool: { kind: approval, quorum: 2 } }]");
    assert_eq!(
        sim.approve("ask", "ann", Decided::Approve),
        Ok(Verdict::Accepted)
    );
    let again = sim.approve("ask", "ann", Decided::Approve).unwrap_err();
    assert_eq!(again, Refused::DecidedAlready("ann".into()));
    assert_eq!(again.code(), ErrorCode::AlreadyDecided);
    assert_eq!(sim.status(), ExecutionStatus::Running);
    let second = Approve {
        comment: Some("fine".into()),
        values: Some(json(r#"{"n":1}"#)),
        ..decision("bob", Decided::Approve)
    };
    assert_eq!(sim.decide(input(second)), Ok(Verdict::Accepted));
    let data = last_data(&sim);
    assert_eq!(data.get("approved"), Some(&Json::Bool(true)));
    assert_eq!(data.get("by"), Some(&Json::from("bob")));
    assert_eq!(data.get("comment"), Some(&Json::from("fine")));
    assert_eq!(data.get("values"), Some(&json(r#"{"n":1}"#)));
    assert_eq!(data.get("at"), Some(&Json::from(sim.now())));
}

#[test]
fn one_rejection_decides_and_is_a_success() {
    let mut sim = begun(
        r#"
workflow:
  - step: ask
    tool: { kind: approval, quorum: 3 }
    next: { arcs: [{ step: no, when: "{{ not output.approved }}" }, { step: yes }] }
  - { step: no, tool: { kind: sleep, for: 1s } }
  - { step: yes, tool: { kind: noop } }
"#,
    );
    sim.approve("ask", "ann", Decided::Approve).unwrap();
    sim.approve("ask", "bob", Decided::Reject).unwrap();
    assert_eq!(last_data(&sim).get("by"), Some(&Json::from("bob")));
    let late = sim.approve("ask", "eve", Decided::Approve).unwrap_err();
    assert_eq!(late, Refused::NothingToDecide("ask".parse().unwrap()));
    assert_eq!(late.code(), ErrorCode::AlreadyDecided);
    assert!(sim.state().runs().any(|(step, _)| step.0 == 1));
}

#[test]
fn only_approvers_decide() {
    let mut sim =
        begun("workflow: [{ step: ask, tool: { kind: approval, approvers: [ann, ops] } }]");
    let wait = sim.state().waits().next().unwrap();
    assert!(matches!(wait.kind, WaitKind::Approval(_, approval) if approval.approvers.len() == 2));
    let stranger = sim.approve("ask", "eve", Decided::Approve).unwrap_err();
    assert_eq!(stranger.code(), ErrorCode::Forbidden);
    let nowhere = sim.approve("nowhere", "ann", Decided::Approve).unwrap_err();
    assert_eq!(nowhere.code(), ErrorCode::NotFound);
    let by_group = Approve {
        groups: vec![Text::from("ops")],
        ..decision("eve", Decided::Approve)
    };
    assert_eq!(sim.decide(input(by_group)), Ok(Verdict::Accepted));
}

#[test]
fn values_have_to_fill_in_the_form() {
    let mut sim = begun(
        "workflow: [{ step: ask, tool: { kind: approval, quorum: 2, form: { type: object, required: [n] } } }]",
    );
    let empty = sim.approve("ask", "ann", Decided::Approve).unwrap_err();
    assert!(
        matches!(empty, Refused::BadMessage { what: "form", .. }),
        "{empty}"
    );
    let filled = Approve {
        values: Some(json(r#"{"n":1}"#)),
        ..decision("ann", Decided::Approve)
    };
    assert_eq!(sim.decide(input(filled)), Ok(Verdict::Accepted));
    // Who says no need not fill it in.
    assert_eq!(
        sim.approve("ask", "bob", Decided::Reject),
        Ok(Verdict::Accepted)
    );
}

#[test]
fn nobody_decides_in_time() {
    for (on_timeout, approved) in [
        ("reject", Some(false)),
        ("approve", Some(true)),
        ("fail", None),
    ] {
        let mut sim = begun(&format!(
            "workflow: [{{ step: ask, tool: {{ kind: approval, timeout: 1h, on_timeout: {on_timeout} }} }}]"
        ));
        assert!(sim.let_time_pass());
        match approved {
            Some(approved) => {
                let data = last_data(&sim);
                assert_eq!(data.get("approved"), Some(&Json::Bool(approved)));
                assert_eq!(data.get("by"), Some(&Json::Null));
            }
            None => assert_eq!(sim.status(), ExecutionStatus::Failed),
        }
    }
}

#[test]
fn each_iteration_is_asked_about_on_its_own() {
    let mut sim = begun(
        "workflow: [{ step: ask, loop: { in: 2, iterator: i, spec: { mode: parallel } }, tool: { kind: approval } }]",
    );
    let none = sim.approve("ask", "ann", Decided::Approve).unwrap_err();
    assert_eq!(none.code(), ErrorCode::AlreadyDecided);
    for index in [1, 0] {
        let one = Approve {
            index: Some(index),
            ..decision("ann", Decided::Approve)
        };
        assert_eq!(sim.decide(input(one)), Ok(Verdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}
