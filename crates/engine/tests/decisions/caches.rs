//! Results that are taken over.

use noetl_engine::{EventKind, Refused};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::{ExecutionStatus, Json, TaskErrorKind};

use crate::json;

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

fn sim(payload: &str) -> Sim {
    let tools = |call: &Call<'_>| match call.config.get("command") {
        Some(command) if call.step == "load" => Play::Ok(Json::object([("ran", command.clone())])),
        Some(_) | None => Play::AsWritten,
    };
    Sim::of(BODY).with_tools(tools).with_payload(json(payload))
}

fn commands(sim: &Sim) -> usize {
    let issued = |event: &&noetl_engine::Event| matches!(event.kind, EventKind::CommandIssued(_));
    sim.log().iter().filter(issued).count()
}

#[test]
fn a_miss_runs_and_is_kept() {
    let sim = sim("{}").run();
    assert_eq!(commands(&sim), 2);
    assert_eq!(sim.results_kept(), 1);
    sim.decide_again();
}

#[test]
fn a_hit_is_taken_over_without_a_command() {
    let first = sim("{}").run();
    let second = sim("{}").with_results_of(&first).run();
    insta::assert_snapshot!(second.table());
    assert_eq!(second.status(), ExecutionStatus::Completed);
    assert_eq!(second.state().ctx(), first.state().ctx());
    assert_eq!(commands(&second), 1);
    second.decide_again();
    let taken = second.log().iter().find_map(|event| match &event.kind {
        EventKind::TakenOver(taken) => Some(taken.origin),
        _ => None,
    });
    let origin = taken.unwrap();
    assert_eq!(origin.execution_id, first.header().execution_id);
    let exit = &first.log()[usize::try_from(origin.seq.get() - 1).unwrap()];
    assert!(matches!(&exit.kind, EventKind::StepExited(exited) if exited.step == "load"));
    let other = sim(r#"{"city":"rome"}"#).with_results_of(&first).run();
    assert_eq!(commands(&other), 2);
    assert_eq!(other.results_kept(), 2);
}

#[test]
fn what_failed_is_not_kept() {
    let sim = sim("{}")
        .with_tools(|_| Play::fail(TaskErrorKind::Transform, "boom"))
        .run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert_eq!(sim.results_kept(), 0);
}

#[test]
fn a_key_that_makes_no_sense_fails_the_step() {
    let sim = Sim::of(&BODY.replace("{{ workload.city }}\", ttl", "{{ none }}\", ttl")).run();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(sim.table().contains("spec.cache.key"), "{}", sim.table());
}

/// The result of a loop is taken over as a whole, and means the same to its arcs.
#[test]
fn loops_are_taken_over_as_a_whole() {
    let body = r#"
workflow:
  - step: each
    spec: { cache: { key: k, scope: tenant } }
    loop: { in: [1, 2], iterator: x }
    tool: { kind: noop, result: "{{ x * 10 }}" }
    next: { arcs: [{ step: use, when: "{{ event.name == 'loop.done' and output.stats.total == 2 }}" }] }
  - { step: use, tool: { kind: noop, result: "{{ each.results }} {{ each.data }} {{ each.stats.success }}" } }
"#;
    let first = Sim::of(body).run();
    assert_eq!(commands(&first), 3);
    let second = Sim::of(body).with_results_of(&first).run();
    assert_eq!(commands(&second), 1);
    let last = |sim: &Sim| sim.log().last().unwrap().kind.clone();
    assert_eq!(last(&first), last(&second));
    insta::assert_snapshot!(second.table());
    second.decide_again();
}

/// A pipeline keeps what each of its tasks yielded.
#[test]
fn pipelines_keep_what_the_last_task_hides() {
    let body = r#"
workflow:
  - step: both
    spec: { cache: { key: k } }
    tool: [{ name: one, kind: noop, result: 1 }, { name: two, kind: noop, result: { one: 5 } }]
    next: { arcs: [{ step: use }] }
  - { step: use, tool: { kind: noop, result: "{{ both.results.one }} {{ both.one }}" } }
"#;
    let first = Sim::of(body).run();
    let second = Sim::of(body).with_results_of(&first).run();
    let last = |sim: &Sim| sim.log().last().unwrap().kind.clone();
    assert_eq!(commands(&second), 1);
    assert_eq!(last(&first), last(&second));
}

/// A step that is entered again by the decision that leaves its result finds it.
#[test]
fn a_result_is_there_for_the_next_run_of_its_step() {
    let body = r#"
workflow:
  - step: again
    spec: { cache: { key: k, ttl: 1h } }
    tool: { kind: noop, result: { n: 1 } }
    set: { ctx.times: "{{ (ctx.times | default(0)) + output.n }}" }
    next: { arcs: [{ step: again, when: "{{ ctx.times < 3 }}" }] }
"#;
    let sim = Sim::of(body).run();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    assert_eq!(sim.state().ctx(), &json(r#"{"times":3}"#));
    assert_eq!(commands(&sim), 1, "{}", sim.table());
    sim.decide_again();
}

/// Without an answer there is no decision, and nothing has changed.
#[test]
fn an_answer_is_asked_for() {
    use noetl_engine::{CacheAnswer, CacheKey, Input, Moment, Start, State, decide};
    use noetl_playbook::carried::NoPayloads;
    use noetl_types::id::HighWater;
    use noetl_types::{CatalogId, IdGenerator, MachineId};
    use std::collections::BTreeMap;

    let sim = sim("{}");
    let start = Start::new(
        sim.header().execution_id,
        CatalogId::new(7).unwrap(),
        sim.header().path.clone(),
    );
    let mut ids = IdGenerator::new(MachineId::MIN, HighWater::NONE);
    let mut answers: BTreeMap<CacheKey, CacheAnswer> = BTreeMap::new();
    let mut ask = |answers: &BTreeMap<CacheKey, CacheAnswer>| {
        let mut moment = Moment {
            now: sim.now(),
            ids: &mut ids,
            payloads: &NoPayloads,
            caches: answers,
        };
        let input = Input::Start(Box::new(start.clone()));
        decide(&State::new(sim.plan()), sim.plan(), input, &mut moment)
    };
    let Err(Refused::NeedsCache(key)) = ask(&answers) else {
        panic!("an answer was expected to be asked for");
    };
    answers.insert(key, CacheAnswer::Miss);
    assert_eq!(ask(&answers).unwrap().events.len(), 3);
}
