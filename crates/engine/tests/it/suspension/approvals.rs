//! Approvals: permissions, quorum, forms and timeouts.

use noetl_engine::{
    ApprovalChoice, ApprovalDecision, DecisionError, EngineInput, InputVerdict, WaitKind,
};
use noetl_types::{ErrorCode, ExecutionStatus, Json, Text};

use super::{last_call_data, parse_json, started_sim};

fn new_decision(actor: &str, decision: ApprovalChoice) -> ApprovalDecision {
    ApprovalDecision {
        step: "ask".parse().unwrap(),
        index: None,
        decision,
        actor: actor.into(),
        groups: Vec::new(),
        comment: None,
        values: None,
    }
}

fn approval_input(decision: ApprovalDecision) -> EngineInput {
    EngineInput::Approve(Box::new(decision))
}

#[test]
fn approval_requires_quorum() {
    let mut sim = started_sim("workflow: [{ step: ask, tool: { kind: approval, quorum: 2 } }]");
    assert_eq!(
        sim.send_decision("ask", "ann", ApprovalChoice::Approve),
        Ok(InputVerdict::Accepted)
    );
    let again = sim.send_decision("ask", "ann", ApprovalChoice::Approve).unwrap_err();
    assert_eq!(again, DecisionError::AlreadyDecided("ann".into()));
    assert_eq!(again.code(), ErrorCode::AlreadyDecided);
    assert_eq!(sim.status(), ExecutionStatus::Running);
    let second = ApprovalDecision {
        comment: Some("fine".into()),
        values: Some(parse_json(r#"{"n":1}"#)),
        ..new_decision("bob", ApprovalChoice::Approve)
    };
    assert_eq!(sim.decide(approval_input(second)), Ok(InputVerdict::Accepted));
    let data = last_call_data(&sim);
    assert_eq!(data.get("approved"), Some(&Json::Bool(true)));
    assert_eq!(data.get("by"), Some(&Json::from("bob")));
    assert_eq!(data.get("comment"), Some(&Json::from("fine")));
    assert_eq!(data.get("values"), Some(&parse_json(r#"{"n":1}"#)));
    assert_eq!(data.get("at"), Some(&Json::from(sim.now())));
}

#[test]
fn single_rejection_completes_the_task() {
    let mut sim = started_sim(
        r#"
workflow:
  - step: ask
    tool: { kind: approval, quorum: 3 }
    next: { arcs: [{ step: no, when: "{{ not output.approved }}" }, { step: yes }] }
  - { step: no, tool: { kind: sleep, for: 1s } }
  - { step: yes, tool: { kind: noop } }
"#,
    );
    sim.send_decision("ask", "ann", ApprovalChoice::Approve).unwrap();
    sim.send_decision("ask", "bob", ApprovalChoice::Reject).unwrap();
    assert_eq!(last_call_data(&sim).get("by"), Some(&Json::from("bob")));
    let late = sim.send_decision("ask", "eve", ApprovalChoice::Approve).unwrap_err();
    assert_eq!(late, DecisionError::NoOpenApproval("ask".parse().unwrap()));
    assert_eq!(late.code(), ErrorCode::AlreadyDecided);
    assert!(sim.state().active_passes().any(|(step, _)| step.0 == 1));
}

#[test]
fn rejects_decisions_by_non_approvers() {
    let mut sim =
        started_sim("workflow: [{ step: ask, tool: { kind: approval, approvers: [ann, ops] } }]");
    let wait = sim.state().open_waits().next().unwrap();
    assert!(matches!(wait.kind, WaitKind::Approval(_, approval) if approval.approvers.len() == 2));
    let forbidden = sim.send_decision("ask", "eve", ApprovalChoice::Approve).unwrap_err();
    assert_eq!(forbidden.code(), ErrorCode::Forbidden);
    let unknown_step = sim.send_decision("nowhere", "ann", ApprovalChoice::Approve).unwrap_err();
    assert_eq!(unknown_step.code(), ErrorCode::NotFound);
    let by_group = ApprovalDecision {
        groups: vec![Text::from("ops")],
        ..new_decision("eve", ApprovalChoice::Approve)
    };
    assert_eq!(sim.decide(approval_input(by_group)), Ok(InputVerdict::Accepted));
}

#[test]
fn approval_values_must_match_form() {
    let mut sim = started_sim(
        "workflow: [{ step: ask, tool: { kind: approval, quorum: 2, form: { type: object, required: [n] } } }]",
    );
    let empty = sim.send_decision("ask", "ann", ApprovalChoice::Approve).unwrap_err();
    assert!(matches!(empty, DecisionError::SchemaMismatch { what: "form", .. }), "{empty}");
    let filled = ApprovalDecision {
        values: Some(parse_json(r#"{"n":1}"#)),
        ..new_decision("ann", ApprovalChoice::Approve)
    };
    assert_eq!(sim.decide(approval_input(filled)), Ok(InputVerdict::Accepted));
    // A rejection does not require the form.
    assert_eq!(sim.send_decision("ask", "bob", ApprovalChoice::Reject), Ok(InputVerdict::Accepted));
}

#[test]
fn timeout_applies_configured_decision() {
    for (on_timeout, approved) in [("reject", Some(false)), ("approve", Some(true)), ("fail", None)]
    {
        let mut sim = started_sim(&format!(
            "workflow: [{{ step: ask, tool: {{ kind: approval, timeout: 1h, on_timeout: {on_timeout} }} }}]"
        ));
        assert!(sim.advance_to_next_event());
        match approved {
            Some(approved) => {
                let data = last_call_data(&sim);
                assert_eq!(data.get("approved"), Some(&Json::Bool(approved)));
                assert_eq!(data.get("by"), Some(&Json::Null));
            }
            None => assert_eq!(sim.status(), ExecutionStatus::Failed),
        }
    }
}

#[test]
fn loop_iterations_are_approved_separately() {
    let mut sim = started_sim(
        "workflow: [{ step: ask, loop: { in: 2, iterator: i, spec: { mode: parallel } }, tool: { kind: approval } }]",
    );
    let without_index = sim.send_decision("ask", "ann", ApprovalChoice::Approve).unwrap_err();
    assert_eq!(without_index.code(), ErrorCode::AlreadyDecided);
    for index in [1, 0] {
        let one =
            ApprovalDecision { index: Some(index), ..new_decision("ann", ApprovalChoice::Approve) };
        assert_eq!(sim.decide(approval_input(one)), Ok(InputVerdict::Accepted));
    }
    assert_eq!(sim.status(), ExecutionStatus::Completed);
}
