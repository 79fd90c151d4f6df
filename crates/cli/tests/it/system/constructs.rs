//! Every construct of the playbook language, on both backends.

use std::sync::Arc;

use noetl_api::execute::ExecuteRequest;
use noetl_types::{EventType, ExecutionId, ExecutionStatus, Json, PoolName};

use crate::system::deployment::wait_until;
use crate::system::process::is_process_alive;
use crate::system::test_cluster::{
    ConcurrentCases, EndedRuns, PLAYBOOK_DIR, TestCluster, parse_json, to_json_string,
    wait_for_lines,
};

#[tokio::test(flavor = "multi_thread")]
async fn constructs_on_sqlite() {
    run_all_constructs(TestCluster::on_sqlite(15).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constructs_on_postgres() {
    run_all_constructs(TestCluster::on_postgres(15).await).await;
}

/// Separate from the other constructs, because 50 MB take long in a debug build.
#[tokio::test(flavor = "multi_thread")]
async fn large_result_is_stored_by_reference_on_sqlite() {
    let cluster = TestCluster::on_sqlite(120).await;
    let runs = large_result(Arc::clone(&cluster)).await;
    cluster.close_and_verify(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_result_is_stored_by_reference_on_postgres() {
    let cluster = TestCluster::on_postgres(120).await;
    let runs = large_result(Arc::clone(&cluster)).await;
    cluster.close_and_verify(&runs).await;
}

#[test]
fn test_playbooks_pass_strict_check() {
    let mut noetl = std::process::Command::new(env!("CARGO_BIN_EXE_noetl"));
    let dirs = ["constructs", "faults", "load"].map(|name| format!("{PLAYBOOK_DIR}/{name}"));
    let output = noetl.args(["check", "--strict"]).args(dirs).output();
    let output = output.expect("noetl runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

async fn run_all_constructs(cluster: Arc<TestCluster>) {
    let mut cases = ConcurrentCases::new(cluster);
    cases.spawn_case("sleep", sleep_ends_by_timer);
    cases.spawn_case("wait_any", wait_any);
    cases.spawn_case("wait_all", wait_all);
    cases.spawn_case("wait_lookback", wait_lookback);
    cases.spawn_case("wait_timeout", wait_timeout);
    cases.spawn_case("broadcast", broadcast_reaches_matching_runs);
    cases.spawn_case("approval", approval_requires_form_values);
    cases.spawn_case("approval_quorum", approval_quorum);
    cases.spawn_case("children", children_return_results);
    cases.spawn_case("children_that_fail", children_that_fail);
    cases.spawn_case("children_that_linger", children_that_linger);
    cases.spawn_case("children_in_a_loop", children_in_a_loop);
    cases.spawn_case("pipeline", pipeline_passes_results);
    cases.spawn_case("cursor_sqlite", cursor_sqlite);
    cases.spawn_case("cursor_postgres", cursor_postgres);
    cases.spawn_case("cache", cache_skips_repeated_work);
    cases.spawn_case("final_step", final_step);
    cases.spawn_case("concurrency", concurrency_limits_slots);
    cases.spawn_case("one_at_a_time", one_at_a_time);
    cases.spawn_case("priority", priority_orders_commands);
    cases.spawn_case("timeouts", timeouts_kill_tasks);
    cases.spawn_case("loops", loops_collect_results);
    cases.spawn_case("retries", retries_share_one_key);
    cases.spawn_case("guards", guards_skip_steps);
    cases.spawn_case("variables", variables_are_resolved);
    cases.assert_all_pass().await;
}

/// Payload with the path of an effects file.
fn effects_payload(cluster: &TestCluster, file: &str, extra_fields: &str) -> String {
    let effects_file = to_json_string(cluster.file_path(file).display());
    format!(r#"{{"effects_file":{effects_file}{extra_fields}}}"#)
}

async fn sleep_ends_by_timer(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/sleep", "{}").await;
    let result = cluster.wait_for_result(run).await;
    assert_eq!(result, parse_json(r#"{"slept":true,"at_once":true}"#));
    assert_eq!(cluster.fetch_events(run, EventType::TimerFired).await.len(), 2);
    vec![run]
}

async fn wait_any(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/wait_any", r#"{"order":8}"#).await;
    cluster.wait_until_issued(run, "payment").await;
    let other_order = r#"{"name":"paid","key":"9","payload":{"sum":1}}"#;
    assert!(!cluster.send_signal(run, other_order).await, "the signal is for another order");
    let path = format!("/api/executions/{run}/signal");
    let invalid =
        cluster.post_json(&path, r#"{"name":"paid","key":"8","payload":{"total":1}}"#).await;
    assert_eq!((invalid.status, invalid.problem_code()), (422, "validation"), "{invalid:?}");
    let reserved = cluster.post_json(&path, r#"{"name":"approval"}"#).await;
    assert_eq!(reserved.status, 422, "{reserved:?}");
    let matching = r#"{"name":"paid","key":"8","payload":{"sum":30}}"#;
    assert!(cluster.send_signal(run, matching).await);
    assert_eq!(cluster.wait_for_result(run).await, parse_json(r#"{"shipped":8,"sum":30}"#));

    let voided = cluster.start("constructs/wait_any", "{}").await;
    cluster.wait_until_issued(voided, "payment").await;
    let signal = r#"{"name":"voided","key":"7","payload":{"sum":0}}"#;
    assert!(cluster.send_signal(voided, signal).await);
    assert_eq!(cluster.wait_for_result(voided).await, parse_json(r#"{"shipped":null}"#));
    vec![run, voided]
}

async fn wait_all(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/wait_all", "{}").await;
    cluster.wait_until_issued(run, "papers").await;
    assert!(cluster.send_signal(run, r#"{"name":"invoice","payload":{"sum":3}}"#).await);
    assert!(cluster.send_signal(run, r#"{"name":"goods","payload":["a","b"]}"#).await);
    let expected = parse_json(r#"{"goods":["a","b"],"bill":{"sum":3}}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    vec![run]
}

async fn wait_lookback(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/wait_lookback", "{}").await;
    cluster.wait_until_issued(run, "door").await;
    for text in ["older", "newer"] {
        let signal = format!(r#"{{"name":"letter","payload":{{"text":"{text}"}}}}"#);
        assert!(!cluster.send_signal(run, &signal).await, "no step waits for it yet");
    }
    assert!(cluster.send_signal(run, r#"{"name":"open"}"#).await);
    assert_eq!(cluster.wait_for_result(run).await, Json::from("older"));
    vec![run]
}

async fn wait_timeout(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/wait_timeout", "{}").await;
    assert_eq!(cluster.wait_for_result(run).await, Json::from("gave up"));
    let late =
        cluster.post_json(&format!("/api/executions/{run}/signal"), r#"{"name":"never"}"#).await;
    assert_eq!((late.status, late.problem_code()), (409, "already_terminal"));
    vec![run]
}

async fn broadcast_reaches_matching_runs(cluster: Arc<TestCluster>) -> EndedRuns {
    let mut runs = Vec::new();
    for region in ["eu", "eu", "us", "eu"] {
        let payload = format!(r#"{{"region":"{region}"}}"#);
        let run = cluster.start("constructs/broadcast", &payload).await;
        cluster.wait_until_issued(run, "market").await;
        runs.push(run);
    }
    let us_run = runs.remove(2);
    let signal_body = |key: &str, price: u32| {
        format!(r#"{{"name":"market_open","key":"{key}","payload":{{"price":{price}}}}}"#)
    };
    let response = cluster.post_json("/api/signals", &signal_body("eu", 3)).await.expect_ok();
    let delivered = response.get("delivered").and_then(Json::as_list);
    let mut delivered = delivered.expect("a list").to_vec();
    delivered.sort_by_key(Json::to_string);
    let mut expected: Vec<Json> = runs.iter().map(|run| Json::from(run.to_string())).collect();
    expected.sort_by_key(Json::to_string);
    assert_eq!(delivered, expected);
    for run in &runs {
        assert_eq!(cluster.wait_for_result(*run).await, Json::from(3));
    }
    assert!(!cluster.next_client().run_status(us_run).await.completed);
    cluster.post_json("/api/signals", &signal_body("us", 4)).await.expect_ok();
    assert_eq!(cluster.wait_for_result(us_run).await, Json::from(4));
    runs.push(us_run);
    runs
}

async fn approval_requires_form_values(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/approval", "{}").await;
    cluster.wait_until_issued(run, "ask").await;
    let incomplete = cluster.send_decision(run, r#"{"step":"ask","decision":"approve"}"#).await;
    assert_eq!(incomplete.status, 422, "the form is not filled in: {incomplete:?}");
    let pending = cluster.get_json("/api/approvals").await.expect_ok();
    let approvals = pending.get("approvals").and_then(Json::as_list);
    let is_for_run = |view: &&Json| view.get("execution_id") == Some(&Json::from(run.to_string()));
    let view = approvals.expect("a list").iter().find(is_for_run).expect("an entry");
    assert_eq!(view.get("title"), Some(&Json::from("Pay 900?")));
    let approval =
        r#"{"step":"ask","decision":"approve","comment":"fine","values":{"account":"A1"}}"#;
    let response = cluster.send_decision(run, approval).await.expect_ok();
    assert_eq!(response.get("decision"), Some(&Json::from("approve")));
    let expected = parse_json(r#"{"paid_from":"A1","comment":"fine"}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    let late = cluster.send_decision(run, approval).await;
    assert_eq!(late.status, 409, "{late:?}");

    let rejected = cluster.start("constructs/approval", "{}").await;
    cluster.wait_until_issued(rejected, "ask").await;
    let rejection = r#"{"step":"ask","decision":"reject","comment":"too much"}"#;
    cluster.send_decision(rejected, rejection).await.expect_ok();
    let expected = parse_json(r#"{"refused":true,"comment":"too much"}"#);
    assert_eq!(cluster.wait_for_result(rejected).await, expected);
    vec![run, rejected]
}

/// All callers on this machine are the same identity, which is counted once.
async fn approval_quorum(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/approval_quorum", "{}").await;
    cluster.wait_until_issued(run, "ask").await;
    let approval = r#"{"step":"ask","decision":"approve"}"#;
    cluster.send_decision(run, approval).await.expect_ok();
    let second = cluster.send_decision(run, approval).await;
    assert_eq!((second.status, second.problem_code()), (409, "already_decided"));
    let expected = parse_json(r#"{"approved":false,"by":null}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    vec![run]
}

/// Parses the id of a run from a result.
fn parse_execution_id(value: Option<&Json>) -> ExecutionId {
    let text = value.and_then(Json::as_str).expect("an id");
    text.parse().expect("an id")
}

/// Returns the child runs of a run.
async fn find_children(cluster: &TestCluster, run: ExecutionId) -> Vec<ExecutionId> {
    let query = noetl_api::query::ExecutionsQuery {
        parent: Some(run),
        ..noetl_api::query::ExecutionsQuery::default()
    };
    let list = cluster.next_client().0.list_executions(&query).await.expect("a list");
    let runs = list.executions.iter();
    runs.map(|summary| summary.execution_id).collect()
}

async fn children_return_results(cluster: Arc<TestCluster>) -> EndedRuns {
    cluster.register_playbook("constructs/child").await;
    let run = cluster.start("constructs/parent", "{}").await;
    let result = cluster.wait_for_result(run).await;
    let async_child = parse_execution_id(result.get("aside"));
    let field = |name: &str| result.get(name).cloned().unwrap_or_default();
    assert_eq!(field("whole"), Json::from(15));
    assert_eq!(field("part"), Json::from(12));
    assert_eq!(field("is_async"), Json::from(true));
    assert_eq!(cluster.wait_for_result(async_child).await, parse_json(r#"{"tripled":21}"#));
    let mut runs = find_children(&cluster, run).await;
    assert_eq!(runs.len(), 3);
    runs.push(run);
    runs
}

async fn children_that_fail(cluster: Arc<TestCluster>) -> EndedRuns {
    cluster.register_playbook("constructs/child").await;
    let run = cluster.start("constructs/parent_of_failure", "{}").await;
    assert_eq!(cluster.wait_for_result(run).await, Json::from("child"));
    let children = find_children(&cluster, run).await;
    let status = cluster.wait_for_end(children[0]).await;
    assert_eq!(status.status, ExecutionStatus::Failed);
    vec![run, children[0]]
}

async fn children_that_linger(cluster: Arc<TestCluster>) -> EndedRuns {
    cluster.register_playbook("constructs/child").await;
    let cancelling_parent = cluster.start("constructs/parent_in_a_hurry", "{}").await;
    let leaving_parent = cluster.start("constructs/parent_that_leaves", "{}").await;
    assert_eq!(cluster.wait_for_result(cancelling_parent).await, Json::from("late"));
    assert_eq!(cluster.wait_for_result(leaving_parent).await, Json::from("late"));
    let cancelled_child = find_children(&cluster, cancelling_parent).await[0];
    assert_eq!(cluster.wait_for_end(cancelled_child).await.status, ExecutionStatus::Cancelled);
    let running_child = find_children(&cluster, leaving_parent).await[0];
    cluster.wait_until_issued(running_child, "linger").await;
    assert_eq!(
        cluster.next_client().run_status(running_child).await.status,
        ExecutionStatus::Running
    );
    assert!(cluster.send_signal(running_child, r#"{"name":"wake_up"}"#).await);
    cluster.wait_for_result(running_child).await;
    vec![cancelling_parent, leaving_parent, cancelled_child, running_child]
}

async fn children_in_a_loop(cluster: Arc<TestCluster>) -> EndedRuns {
    cluster.register_playbook("constructs/child").await;
    let run = cluster.start("constructs/children_in_a_loop", "{}").await;
    assert_eq!(cluster.wait_for_result(run).await, parse_json("[3,6,9]"));
    vec![run]
}

async fn pipeline_passes_results(cluster: Arc<TestCluster>) -> EndedRuns {
    let payload = effects_payload(&cluster, "pipeline", "");
    let run = cluster.start("constructs/pipeline", &payload).await;
    let result = cluster.wait_for_result(run).await;
    assert_eq!(result, parse_json(r#"{"sum":88,"labels":3,"n":21}"#));
    assert_eq!(cluster.read_lines("pipeline"), ["21 21 42 4"]);
    // One command each for the tasks before the sleep, the sleep, the tasks after it, and the
    // report.
    assert_eq!(cluster.fetch_events(run, EventType::CommandIssued).await.len(), 4);
    vec![run]
}

async fn cursor_sqlite(cluster: Arc<TestCluster>) -> EndedRuns {
    let file = format!(r#","file":{}"#, to_json_string(cluster.file_path("jobs.db").display()));
    let payload = effects_payload(&cluster, "cursor_sqlite", &file);
    let run = cluster.start("constructs/cursor_sqlite", &payload).await;
    let expected = parse_json(r#"{"rows":[{"state":"done","n":25}],"total":25}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    assert_each_once(&cluster.read_lines("cursor_sqlite"), 25);
    vec![run]
}

async fn cursor_postgres(cluster: Arc<TestCluster>) -> EndedRuns {
    let dsn = format!(r#","dsn":{}"#, to_json_string(cluster.task_database.connection_config()));
    let payload = effects_payload(&cluster, "cursor_postgres", &dsn);
    let run = cluster.start("constructs/cursor_postgres", &payload).await;
    let expected = parse_json(r#"{"rows":[{"state":"done","n":40}],"total":40}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    assert_each_once(&cluster.read_lines("cursor_postgres"), 40);
    vec![run]
}

/// Asserts that the lines are the numbers from 1 to `count`, each once.
fn assert_each_once(lines: &[String], count: u32) {
    let mut numbers: Vec<u32> = lines.iter().map(|line| line.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
}

async fn cache_skips_repeated_work(cluster: Arc<TestCluster>) -> EndedRuns {
    let payload =
        |subject: &str| effects_payload(&cluster, "cache", &format!(r#","subject":"{subject}""#));
    let mut runs = Vec::new();
    for subject in ["owls", "owls", "bats"] {
        let run = cluster.start("constructs/cache", &payload(subject)).await;
        assert_eq!(cluster.wait_for_result(run).await, Json::from("done"));
        runs.push(run);
    }
    assert_eq!(cluster.read_lines("cache"), ["owls", "bats"]);
    // The second run issues a command only for its report.
    assert_eq!(cluster.fetch_events(runs[1], EventType::CommandIssued).await.len(), 1);
    runs
}

async fn final_step(cluster: Arc<TestCluster>) -> EndedRuns {
    let payload = |code: u8| effects_payload(&cluster, "final_step", &format!(r#","code":{code}"#));
    let completed = cluster.start("constructs/final_step", &payload(0)).await;
    cluster.wait_for_result(completed).await;
    let (failed, error) = cluster.run_failing("constructs/final_step", &payload(3)).await;
    assert!(error.contains('3'), "{error}");
    assert_eq!(cluster.read_lines("final_step"), ["0 COMPLETED", "3 FAILED"]);
    vec![completed, failed]
}

/// Maximum number of concurrent entries, where `+` marks an entry and `-` an exit.
pub(crate) fn max_concurrent(lines: &[String]) -> usize {
    let (mut active, mut max_active) = (0_usize, 0);
    for line in lines {
        match line.as_str() {
            "+" => active += 1,
            "-" => active = active.checked_sub(1).expect("an exit follows an entry"),
            other => panic!("{other:?}"),
        }
        max_active = max_active.max(active);
    }
    assert_eq!(active, 0, "all entries have an exit");
    max_active
}

async fn concurrency_limits_slots(cluster: Arc<TestCluster>) -> EndedRuns {
    run_with_limit(cluster, "concurrency", 8, 2).await
}

async fn one_at_a_time(cluster: Arc<TestCluster>) -> EndedRuns {
    run_with_limit(cluster, "one_at_a_time", 5, 1).await
}

/// Starts `count` runs of a playbook and checks that at most `limit` are active at the same time.
async fn run_with_limit(
    cluster: Arc<TestCluster>,
    name: &str,
    count: usize,
    limit: usize,
) -> EndedRuns {
    let payload = effects_payload(&cluster, name, "");
    let path = format!("constructs/{name}");
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(cluster.start(&path, &payload).await);
    }
    for run in &runs {
        cluster.wait_for_end(*run).await;
    }
    let lines = cluster.read_lines(name);
    assert_eq!(lines.len(), 2 * count);
    let max_active = max_concurrent(&lines);
    assert!((1..=limit).contains(&max_active), "{max_active} at once");
    runs
}

/// All runs wait for a dedicated worker with one permit, which starts last.
async fn priority_orders_commands(cluster: Arc<TestCluster>) -> EndedRuns {
    let path = cluster.register_playbook("constructs/priority").await;
    let mut runs = Vec::new();
    for rank in [-5, 0, 9, 1] {
        let payload = effects_payload(&cluster, "priority", &format!(r#","rank":{rank}"#));
        let request = ExecuteRequest {
            path: Some(path.clone()),
            payload: Some(parse_json(&payload)),
            execution_pool: Some(PoolName::new("narrow").expect("a name")),
            ..ExecuteRequest::default()
        };
        runs.push(cluster.start_with_request(request).await);
    }
    let args = ["--pool", "narrow", "--concurrency", "1"];
    let _worker = cluster.deployment.start_worker_with_args(&cluster.servers[0], "narrow", &args);
    for run in &runs {
        cluster.wait_for_result(*run).await;
    }
    assert_eq!(cluster.read_lines("priority"), ["9", "1", "0", "-5"]);
    runs
}

async fn timeouts_kill_tasks(cluster: Arc<TestCluster>) -> EndedRuns {
    let payload = effects_payload(&cluster, "step_timeout", "");
    let step = cluster.start("constructs/step_timeout", &payload).await;
    let payload = effects_payload(&cluster, "execution_timeout", "");
    let (execution, error) = cluster.run_failing("constructs/execution_timeout", &payload).await;
    assert!(error.contains("time"), "{error}");
    assert_eq!(cluster.wait_for_result(step).await, Json::from("caught"));
    for file in ["step_timeout", "execution_timeout"] {
        let file = cluster.file_path(file);
        wait_until("the process is gone", || !is_process_alive(&file)).await;
    }
    vec![step, execution]
}

async fn loops_collect_results(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/loops", "{}").await;
    let expected = parse_json(
        r#"{"trail":"Bonn,Ulm,Kiel,","fly":["0:Bonn","1:Ulm","2:Kiel"],
            "stats":{"total":4,"success":3,"failed":1},"failed":[2],"nothing":0}"#,
    );
    assert_eq!(cluster.wait_for_result(run).await, expected);
    vec![run]
}

async fn retries_share_one_key(cluster: Arc<TestCluster>) -> EndedRuns {
    let payload = effects_payload(&cluster, "retries", "");
    let run = cluster.start("constructs/retries", &payload).await;
    assert_eq!(cluster.wait_for_result(run).await, Json::from("COMPLETED"));
    wait_for_lines(&cluster, "retries", 3).await;
    let keys = cluster.read_lines("retries");
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "one key: {keys:?}");
    assert_eq!(cluster.fetch_events(run, EventType::CallError).await.len(), 2);
    vec![run]
}

async fn guards_skip_steps(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/guards", "{}").await;
    let expected = parse_json(r#"["SKIPPED","COMPLETED","SKIPPED"]"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    vec![run]
}

async fn variables_are_resolved(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/variables", r#"{"deep":{"b":7}}"#).await;
    let expected = parse_json(
        r#"{"python":{"greeting":"hello world","map":{"inner":"world"},"from_arc":4},
            "all":[2,3,4,1,7]}"#,
    );
    assert_eq!(cluster.wait_for_result(run).await, expected);
    vec![run]
}

async fn large_result(cluster: Arc<TestCluster>) -> EndedRuns {
    let run = cluster.start("constructs/large_result", "{}").await;
    let expected = parse_json(r#"{"name":"row 1100","count":2000,"kept":true}"#);
    assert_eq!(cluster.wait_for_result(run).await, expected);
    let query = noetl_api::query::ExecutionDetailQuery::default();
    let detail = cluster.next_client().0.get_execution(run, &query).await;
    let log = detail.expect("a run").events;
    let size = serde_json::to_string(&log).expect("JSON").len();
    assert!(size < 200_000, "the log has {size} bytes");
    vec![run]
}
