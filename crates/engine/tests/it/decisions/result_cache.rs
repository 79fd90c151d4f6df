//! Reuse of cached results.

use noetl_engine::{DecisionError, EventKind};
use noetl_testkit::sim::{SimulatedCall, Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, TaskErrorKind};

use crate::decisions::parse_json;

const BODY: &str = r#"
workload: { city: berlin, mood: good }
workflow:
  - step: load
    spec: { cache: { key: "{{ workload.city }}", ttl: 1h } }
    tool: { kind: shell, command: "load {{ workload.city }}" }
    set: { ctx.got: "{{ output }}" }
    next: { arcs: [{ step: use, when: "{{ event.name == 'call.done' }}" }] }
  - { step: use, tool: { kind: noop, result: "{{ load }}" } }
"#;

fn load_sim(payload: &str) -> Simulation {
    let tools = |call: &SimulatedCall<'_>| match call.config.get("command") {
        Some(command) if call.step == "load" => {
            ToolBehavior::Ok(Json::object([("ran", command.clone())]))
        }
        Some(_) | None => ToolBehavior::Configured,
    };
    Simulation::from_body(BODY).with_tools(tools).with_payload(parse_json(payload))
}

fn issued_count(sim: &Simulation) -> usize {
    let issued = |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandIssued(_));
    sim.log().iter().filter(issued).count()
}

#[test]
fn cache_miss_runs_step_and_stores_result() {
    let sim = load_sim("{}").run();
    assert_eq!(issued_count(&sim), 2);
    assert_eq!(sim.cached_result_count(), 1);
    sim.repeat_decisions();
}

#[test]
fn cache_hit_issues_no_command() {
    let first = load_sim("{}").run();
    let second = load_sim("{}").with_cached_results_of(&first).run();
    insta::assert_snapshot!(second.format_log());
    assert_eq!(second.status(), ExecutionStatus::Completed);
    assert_eq!(second.state().ctx(), first.state().ctx());
    assert_eq!(issued_count(&second), 1);
    second.repeat_decisions();
    let origin = second.log().iter().find_map(|event| match &event.kind {
        EventKind::CachedResultUsed(origin) => Some(origin.origin),
        _ => None,
    });
    let origin = origin.unwrap();
    assert_eq!(origin.execution_id, first.header().execution_id);
    let exit = &first.log()[usize::try_from(origin.seq.get() - 1).unwrap()];
    assert!(matches!(&exit.kind, EventKind::StepExited(exited) if exited.step == "load"));
    let other = load_sim(r#"{"city":"rome"}"#).with_cached_results_of(&first).run();
    assert_eq!(issued_count(&other), 2);
    assert_eq!(other.cached_result_count(), 2);
}

#[test]
fn failed_result_is_not_cached() {
    let sim = load_sim("{}")
        .with_tools(|_| ToolBehavior::failure(TaskErrorKind::Transform, "boom"))
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.cached_result_count(), 0);
}

#[test]
fn invalid_cache_key_fails_step() {
    let sim =
        Simulation::from_body(&BODY.replace("{{ workload.city }}\", ttl", "{{ none }}\", ttl"))
            .run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.format_log().contains("spec.cache.key"), "{}", sim.format_log());
}

/// A cached loop result is reused as a whole and selects the same arcs.
#[test]
fn loop_result_is_cached_as_a_whole() {
    let body = r#"
workflow:
  - step: each
    spec: { cache: { key: k, scope: tenant } }
    loop: { in: [1, 2], iterator: x }
    tool: { kind: noop, result: "{{ x * 10 }}" }
    next: { arcs: [{ step: use, when: "{{ event.name == 'loop.done' and output.stats.total == 2 }}" }] }
  - { step: use, tool: { kind: noop, result: "{{ each.results }} {{ each.data }} {{ each.stats.success }}" } }
"#;
    let first = Simulation::from_body(body).run();
    assert_eq!(issued_count(&first), 3);
    let second = Simulation::from_body(body).with_cached_results_of(&first).run();
    assert_eq!(issued_count(&second), 1);
    let last = |sim: &Simulation| sim.log().last().unwrap().kind.clone();
    assert_eq!(last(&first), last(&second));
    insta::assert_snapshot!(second.format_log());
    second.repeat_decisions();
}

/// The cached result of a pipeline includes the result of each task.
#[test]
fn cached_pipeline_keeps_results_of_all_tasks() {
    let body = r#"
workflow:
  - step: both
    spec: { cache: { key: k } }
    tool: [{ name: one, kind: noop, result: 1 }, { name: two, kind: noop, result: { one: 5 } }]
    next: { arcs: [{ step: use }] }
  - { step: use, tool: { kind: noop, result: "{{ both.results.one }} {{ both.one }}" } }
"#;
    let first = Simulation::from_body(body).run();
    let second = Simulation::from_body(body).with_cached_results_of(&first).run();
    let last = |sim: &Simulation| sim.log().last().unwrap().kind.clone();
    assert_eq!(issued_count(&second), 1);
    assert_eq!(last(&first), last(&second));
}

/// The step is entered again in the same decision that stores its result.
#[test]
fn next_pass_of_step_hits_cache() {
    let body = r#"
workflow:
  - step: again
    spec: { cache: { key: k, ttl: 1h } }
    tool: { kind: noop, result: { n: 1 } }
    set: { ctx.times: "{{ (ctx.times | default(0)) + output.n }}" }
    next: { arcs: [{ step: again, when: "{{ ctx.times < 3 }}" }] }
"#;
    let sim = Simulation::from_body(body).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(sim.state().ctx(), &parse_json(r#"{"times":3}"#));
    assert_eq!(issued_count(&sim), 1, "{}", sim.format_log());
    sim.repeat_decisions();
}

/// Without a lookup result there is no decision and no change.
#[test]
fn decision_requests_cache_lookup() {
    use noetl_engine::{
        CacheKey, CacheLookupResult, DecisionContext, EngineInput, ExecutionState, StartInput,
        decide,
    };
    use noetl_playbook::command_context::EmptyPayloads;
    use noetl_types::id::HighWaterMark;
    use noetl_types::{CatalogId, IdGenerator, MachineId};
    use std::collections::BTreeMap;

    let sim = load_sim("{}");
    let start = StartInput::new(
        sim.header().execution_id,
        CatalogId::new(7).unwrap(),
        sim.header().path.clone(),
    );
    let mut ids = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
    let mut lookups: BTreeMap<CacheKey, CacheLookupResult> = BTreeMap::new();
    let mut decide_start = |lookups: &BTreeMap<CacheKey, CacheLookupResult>| {
        let mut context = DecisionContext {
            now: sim.now(),
            ids: &mut ids,
            payloads: &EmptyPayloads,
            caches: lookups,
        };
        let input = EngineInput::Start(Box::new(start.clone()));
        decide(&ExecutionState::new(sim.plan()), sim.plan(), input, &mut context)
    };
    let Err(DecisionError::NeedsCache(key)) = decide_start(&lookups) else {
        panic!("expected a cache lookup");
    };
    lookups.insert(key, CacheLookupResult::Miss);
    assert_eq!(decide_start(&lookups).unwrap().events.len(), 3);
}
