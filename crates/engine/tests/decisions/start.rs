//! The beginning of a run.

use noetl_engine::{
    Decision, Event, EventKind, Input, Moment, NoCaches, Plan, Refused, Start, State, decide,
};
use noetl_playbook::carried::NoPayloads;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::id::HighWater;
use noetl_types::{
    CatalogId, ExecutionId, IdGenerator, Json, JsonMap, MachineId, PlaybookPath, Timestamp,
};
use std::sync::Arc;

use crate::json;

fn plan(body: &str) -> Plan {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}");
    let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document else {
        panic!("not a playbook");
    };
    Plan::new(Arc::from(playbook)).unwrap()
}

fn start(payload: Json) -> Start {
    Start {
        payload,
        ..Start::new(
            ExecutionId::new(1).unwrap(),
            CatalogId::new(2).unwrap(),
            PlaybookPath::new("example").unwrap(),
        )
    }
}

fn begin(plan: &Plan, state: &State, start: Start) -> Result<Decision, Refused> {
    let mut ids = IdGenerator::new(MachineId::MIN, HighWater::NONE);
    let mut moment = Moment {
        now: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        ids: &mut ids,
        payloads: &NoPayloads,
        caches: &NoCaches,
    };
    decide(state, plan, Input::Start(Box::new(start)), &mut moment)
}

fn workload(events: &[Event]) -> String {
    match &events[0].kind {
        EventKind::PlaybookStarted(started) => match &started.workload {
            noetl_engine::Data::Inline(workload) => workload.to_string(),
            noetl_engine::Data::External(_) => "elsewhere".to_owned(),
        },
        _ => panic!("{events:?}"),
    }
}

const NOOP: &str = "workflow: [{ step: a, tool: { kind: noop } }]";

#[test]
fn the_payload_is_laid_over_the_defaults() {
    let plan = plan(&format!(
        r#"
workload:
  list: [1, 2]
  map: {{ a: 1, deep: {{ x: 1, y: 2 }} }}
  from_payload: "{{{{ payload.who | default('nobody') }}}} {{{{ input.who }}}}"
  from_env: "{{{{ env.HOME_OF | default('none') }}}}"
  never_sees: "{{{{ list | default('unseen') }}}}"
  id: "{{{{ execution_id }}}} {{{{ job.id }}}}"
  at: "{{{{ now() }}}}"
{NOOP}
"#
    ));
    let mut start = start(json(
        r#"{"list":[9],"map":{"b":2,"deep":{"y":3}},"who":"{{ ann }}","extra":true}"#,
    ));
    start.env = JsonMap::from([("HOME_OF".into(), Json::from("bees"))]);
    let decision = begin(&plan, &State::new(&plan), start).unwrap();
    insta::assert_snapshot!(workload(&decision.events));
}

#[test]
fn chance_comes_from_the_seed() {
    let plan = plan(&format!(
        "workload: {{ dice: '{{{{ random() }}}}', name: '{{{{ uuid() }}}}' }}\n{NOOP}"
    ));
    let state = State::new(&plan);
    let drawn = |seed: u8| {
        let start = Start {
            seed: [seed; 32],
            ..start(Json::Null)
        };
        workload(&begin(&plan, &state, start).unwrap().events)
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn priority_of_run_and_step() {
    let plan = plan(
        r#"
workload: { rank: 200 }
priority: "{{ rank }}"
workflow:
  - { step: a, tool: { kind: noop }, priority: "{{ 0 - rank }}" }
"#,
    );
    let decision = begin(&plan, &State::new(&plan), start(Json::Null)).unwrap();
    let ranks: Vec<Option<i16>> = decision
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::PlaybookStarted(started) => Some(started.priority),
            EventKind::CommandIssued(issued) => Some(issued.priority),
            _ => None,
        })
        .collect();
    assert_eq!(ranks, [Some(100), Some(-100)]);
}

#[test]
fn what_is_no_start_is_refused() {
    let plan = plan(NOOP);
    let state = State::new(&plan);
    let refused = begin(&plan, &state, start(Json::from(1))).unwrap_err();
    assert_eq!(refused, Refused::BadPayload("number"));
    let deep = (0..60).fold(Json::Null, |inner, _| Json::list([inner]));
    let payload = Json::object([("deep", deep)]);
    assert_eq!(
        begin(&plan, &state, start(payload)).unwrap_err(),
        Refused::DeepPayload
    );

    let begun = begin(&plan, &state, start(Json::Null)).unwrap().next;
    assert_eq!(
        begin(&plan, &begun, start(Json::Null)).unwrap_err(),
        Refused::AlreadyStarted
    );

    let mut ids = IdGenerator::new(MachineId::MIN, HighWater::NONE);
    let mut moment = Moment {
        now: Timestamp::UNIX_EPOCH,
        ids: &mut ids,
        payloads: &NoPayloads,
        caches: &NoCaches,
    };
    let input = Input::Pause(noetl_engine::event::Steering::default());
    assert_eq!(
        decide(&state, &plan, input, &mut moment).unwrap_err(),
        Refused::NotStarted
    );
    let input = Input::Start(Box::new(start(Json::Null)));
    let too_early = decide(&state, &plan, input, &mut moment).unwrap_err();
    assert!(matches!(too_early, Refused::Clock(_)), "{too_early}");
}
