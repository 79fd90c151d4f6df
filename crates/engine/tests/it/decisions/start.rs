//! Start of a run.

use noetl_engine::{
    Decision, DecisionContext, DecisionError, EmptyCache, EngineInput, Event, EventKind,
    ExecutionState, Plan, StartInput, decide,
};
use noetl_playbook::command_context::EmptyPayloads;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::id::HighWaterMark;
use noetl_types::{
    CatalogId, ExecutionId, IdGenerator, Json, JsonMap, MachineId, PlaybookPath, Timestamp,
};
use std::sync::Arc;

use crate::decisions::parse_json;

fn build_plan(body: &str) -> Plan {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}");
    let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document else {
        panic!("not a playbook");
    };
    Plan::new(Arc::from(playbook)).unwrap()
}

fn start_input(payload: Json) -> StartInput {
    StartInput {
        payload,
        ..StartInput::new(
            ExecutionId::new(1).unwrap(),
            CatalogId::new(2).unwrap(),
            PlaybookPath::new("example").unwrap(),
        )
    }
}

fn decide_start(
    plan: &Plan,
    state: &ExecutionState,
    start: StartInput,
) -> Result<Decision, DecisionError> {
    let mut ids = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
    let mut context = DecisionContext {
        now: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        ids: &mut ids,
        payloads: &EmptyPayloads,
        caches: &EmptyCache,
    };
    decide(state, plan, EngineInput::Start(Box::new(start)), &mut context)
}

fn workload_text(events: &[Event]) -> String {
    match &events[0].kind {
        EventKind::PlaybookStarted(started) => match &started.workload {
            noetl_engine::EventData::Inline(workload) => workload.to_string(),
            noetl_engine::EventData::External(_) => "elsewhere".to_owned(),
        },
        _ => panic!("{events:?}"),
    }
}

const NOOP_WORKFLOW: &str = "workflow: [{ step: a, tool: { kind: noop } }]";

#[test]
fn payload_merges_over_workload_defaults() {
    let plan = build_plan(&format!(
        r#"
workload:
  list: [1, 2]
  map: {{ a: 1, deep: {{ x: 1, y: 2 }} }}
  from_payload: "{{{{ payload.who | default('nobody') }}}} {{{{ input.who }}}}"
  from_env: "{{{{ env.HOME_OF | default('none') }}}}"
  never_sees: "{{{{ list | default('unseen') }}}}"
  id: "{{{{ execution_id }}}} {{{{ job.id }}}}"
  at: "{{{{ now() }}}}"
{NOOP_WORKFLOW}
"#
    ));
    let mut start = start_input(parse_json(
        r#"{"list":[9],"map":{"b":2,"deep":{"y":3}},"who":"{{ ann }}","extra":true}"#,
    ));
    start.env = JsonMap::from([("HOME_OF".into(), Json::from("bees"))]);
    let decision = decide_start(&plan, &ExecutionState::new(&plan), start).unwrap();
    insta::assert_snapshot!(workload_text(&decision.events));
}

#[test]
fn random_values_derive_from_seed() {
    let plan = build_plan(&format!(
        "workload: {{ dice: '{{{{ random() }}}}', name: '{{{{ uuid() }}}}' }}\n{NOOP_WORKFLOW}"
    ));
    let state = ExecutionState::new(&plan);
    let workload = |seed: u8| {
        let start = StartInput { seed: [seed; 32], ..start_input(Json::Null) };
        workload_text(&decide_start(&plan, &state, start).unwrap().events)
    };
    assert_eq!(workload(1), workload(1));
    assert_ne!(workload(1), workload(2));
}

#[test]
fn priority_is_clamped() {
    let plan = build_plan(
        r#"
workload: { rank: 200 }
priority: "{{ rank }}"
workflow:
  - { step: a, tool: { kind: noop }, priority: "{{ 0 - rank }}" }
"#,
    );
    let decision =
        decide_start(&plan, &ExecutionState::new(&plan), start_input(Json::Null)).unwrap();
    let priorities: Vec<Option<i16>> = decision
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::PlaybookStarted(started) => Some(started.priority),
            EventKind::CommandIssued(issued) => Some(issued.priority),
            _ => None,
        })
        .collect();
    assert_eq!(priorities, [Some(100), Some(-100)]);
}

#[test]
fn rejects_invalid_start() {
    let plan = build_plan(NOOP_WORKFLOW);
    let state = ExecutionState::new(&plan);
    let error = decide_start(&plan, &state, start_input(Json::from(1))).unwrap_err();
    assert_eq!(error, DecisionError::InvalidPayload("number"));
    let deep = (0..60).fold(Json::Null, |inner, _| Json::list([inner]));
    let payload = Json::object([("deep", deep)]);
    assert_eq!(
        decide_start(&plan, &state, start_input(payload)).unwrap_err(),
        DecisionError::PayloadTooDeep
    );

    let started = decide_start(&plan, &state, start_input(Json::Null)).unwrap().next;
    assert_eq!(
        decide_start(&plan, &started, start_input(Json::Null)).unwrap_err(),
        DecisionError::AlreadyStarted
    );

    let mut ids = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
    let mut context = DecisionContext {
        now: Timestamp::UNIX_EPOCH,
        ids: &mut ids,
        payloads: &EmptyPayloads,
        caches: &EmptyCache,
    };
    let input = EngineInput::Pause(noetl_engine::event::ControlInfo::default());
    assert_eq!(decide(&state, &plan, input, &mut context).unwrap_err(), DecisionError::NotStarted);
    let input = EngineInput::Start(Box::new(start_input(Json::Null)));
    let too_early = decide(&state, &plan, input, &mut context).unwrap_err();
    assert!(matches!(too_early, DecisionError::Clock(_)), "{too_early}");
}
