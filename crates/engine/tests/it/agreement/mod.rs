//! The engine and the oracle agree: two independent interpreters of the language produce the same
//! log and the same end for the same playbook.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod drive;
mod external_events;
mod run_summary;

use noetl_oracle::generate::{GenConfig, generate_playbook};
use noetl_oracle::{
    CommandOrder, RunResult, ScriptedOutcomes, interpret_playbook, interpret_with_cache,
    shrink_seed, start_workload,
};
use noetl_playbook::model::Playbook;
use noetl_types::Json;

use drive::run_playbook;
use run_summary::{RunSummary, summarize_engine_run, summarize_oracle_run};

/// Runs the oracle once, and a second time if the playbook caches results.
fn oracle_summaries(playbook: &Playbook) -> Vec<RunSummary> {
    let workload = start_workload(playbook, &Json::Null).expect("workload renders");
    let first: RunResult =
        interpret_playbook(playbook, workload.clone(), &ScriptedOutcomes, CommandOrder::IssueOrder)
            .expect("the oracle runs everything that is generated");
    if !caches_results(playbook) {
        return vec![summarize_oracle_run(&first)];
    }
    let second = interpret_with_cache(
        &first,
        playbook,
        workload,
        &ScriptedOutcomes,
        CommandOrder::IssueOrder,
    )
    .expect("it runs again");
    vec![summarize_oracle_run(&first), summarize_oracle_run(&second)]
}

/// Runs the engine once, and a second time if the playbook caches results.
fn engine_summaries(playbook: &Playbook) -> Vec<RunSummary> {
    let first = run_playbook(playbook, None);
    if !caches_results(playbook) {
        return vec![summarize_engine_run(&first)];
    }
    let second = run_playbook(playbook, Some(&first));
    vec![summarize_engine_run(&first), summarize_engine_run(&second)]
}

fn caches_results(playbook: &Playbook) -> bool {
    let mut steps = playbook.workflow.iter();
    steps.any(|step| step.spec.cache.is_some())
}

fn assert_agreement(from: u64, count: u64, config: &GenConfig) {
    let differs = |playbook: &Playbook| oracle_summaries(playbook) != engine_summaries(playbook);
    for seed in from..from + count {
        let Some(playbook) = generate_playbook(seed, config).to_playbook() else {
            panic!("seed {seed} is not a playbook");
        };
        if differs(&playbook) {
            let small = shrink_seed(seed, config, &mut |playbook, _| differs(playbook))
                .expect("it differs");
            let playbook = small.to_playbook().expect("shrunk playbooks are valid");
            let (oracle, engine) = (oracle_summaries(&playbook), engine_summaries(&playbook));
            panic!("seed {seed}:\n{}\noracle {oracle:#?}\nengine {engine:#?}", small.to_yaml());
        }
    }
}

/// Reads of own names, which the generator does not write.
#[test]
fn own_names_agree() {
    let text = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: own_names }
workflow:
  - step: page
    loop: { in: [3, 4], iterator: n }
    tool:
      - name: a
        kind: noop
        result: { x: "{{ n }}", before: "{{ page.stats.total | default('none') }}" }
        set: { ctx.a: "{{ (ctx.a | default([])) + [a.x, page.a.x, page.x, results.a.x] }}" }
      - name: page_b
        kind: noop
        result: "{{ a.x * 2 }}"
        spec:
          policy:
            rules:
              - when: "{{ page_b > 7 and page.data == page_b and page.results.a.x == 4 }}"
                then: { do: continue, set: { ctx.b: "{{ page }}" } }
    set: { ctx.passes: "{{ (ctx.passes | default(0)) + page.stats.total }}" }
    next: { arcs: [{ step: page, when: "{{ ctx.passes < 4 }}" }, { step: one }] }
  - step: one
    tool: { kind: noop, result: { v: 1 }, set: { iter.v: "{{ one.v }}", ctx.one: "{{ one }}" } }
"#;
    let checked = noetl_playbook::check(text, &noetl_playbook::CheckOptions::default());
    let Some(noetl_playbook::Document::Playbook(playbook)) = checked.document else {
        panic!("{:#?}", checked.diagnostics);
    };
    let oracle = oracle_summaries(&playbook);
    assert_eq!(oracle, engine_summaries(&playbook));
    assert!(format!("{oracle:?}").contains("COMPLETED"), "{oracle:#?}");
}

/// Enables every feature without external events, plus the given features with external events.
macro_rules! config_with {
    ($($feature:ident),+) => {
        GenConfig { $($feature: true,)+ ..GenConfig::all_constructs().without_external_inputs() }
    };
}

#[test]
fn heavy_default_features_agree() {
    assert_agreement(0, 600, &GenConfig::default().without_external_inputs());
    assert_agreement(10_000, 400, &GenConfig::default());
}

#[test]
fn heavy_confluent_playbooks_agree() {
    assert_agreement(100_000, 300, &GenConfig::order_independent().without_external_inputs());
    assert_agreement(110_000, 300, &GenConfig::order_independent());
}

#[test]
fn heavy_all_features_agree() {
    assert_agreement(200_000, 500, &GenConfig::all_constructs().without_external_inputs());
    assert_agreement(210_000, 500, &GenConfig::all_constructs());
}

#[test]
fn heavy_cursors_agree() {
    assert_agreement(300_000, 300, &config_with!(cursors));
}

#[test]
fn heavy_caches_agree() {
    assert_agreement(400_000, 300, &config_with!(caches));
}

#[test]
fn heavy_slots_agree() {
    assert_agreement(500_000, 300, &config_with!(slots));
}

#[test]
fn heavy_sleeps_agree() {
    assert_agreement(600_000, 300, &config_with!(sleeps, timeouts));
}

#[test]
fn heavy_waits_agree() {
    assert_agreement(700_000, 300, &config_with!(waits));
}

#[test]
fn heavy_approvals_agree() {
    assert_agreement(800_000, 300, &config_with!(approvals));
}

#[test]
fn heavy_children_agree() {
    assert_agreement(900_000, 300, &config_with!(children));
}
