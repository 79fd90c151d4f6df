//! Every construct of the language, as users write it, on both grounds.

use std::sync::Arc;

use noetl_api::execute::ExecuteRequest;
use noetl_types::{EventType, ExecutionId, ExecutionStatus, Json, PoolName};

use crate::house::until;
use crate::process::lives;
use crate::town::{Cases, PLAYBOOKS, Runs, Town, json, quoted, until_lines};

#[tokio::test(flavor = "multi_thread")]
async fn constructs_on_sqlite() {
    all(Town::small(15).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constructs_on_postgres() {
    all(Town::large(15).await).await;
}

/// By itself: fifty megabytes are much for a build for tests.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_on_sqlite() {
    let town = Town::small(120).await;
    let runs = large_result(Arc::clone(&town)).await;
    town.close(&runs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_on_postgres() {
    let town = Town::large(120).await;
    let runs = large_result(Arc::clone(&town)).await;
    town.close(&runs).await;
}

/// What users are shown is without a mistake.
#[test]
fn the_playbooks_are_in_order() {
    let mut noetl = std::process::Command::new(env!("CARGO_BIN_EXE_noetl"));
    let folders = ["constructs", "faults", "load"].map(|name| format!("{PLAYBOOKS}/{name}"));
    let checked = noetl.args(["check", "--strict"]).args(folders).output();
    let checked = checked.expect("noetl runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

async fn all(town: Arc<Town>) {
    let mut cases = Cases::of(town);
    cases.case("sleep", sleep);
    cases.case("wait_any", wait_any);
    cases.case("wait_all", wait_all);
    cases.case("wait_lookback", wait_lookback);
    cases.case("wait_timeout", wait_timeout);
    cases.case("broadcast", broadcast);
    cases.case("approval", approval);
    cases.case("approval_quorum", approval_quorum);
    cases.case("children", children);
    cases.case("children_that_fail", children_that_fail);
    cases.case("children_that_linger", children_that_linger);
    cases.case("children_in_a_loop", children_in_a_loop);
    cases.case("pipeline", pipeline);
    cases.case("cursor_sqlite", cursor_sqlite);
    cases.case("cursor_postgres", cursor_postgres);
    cases.case("cache", cache);
    cases.case("final_step", final_step);
    cases.case("concurrency", concurrency);
    cases.case("one_at_a_time", one_at_a_time);
    cases.case("priority", priority);
    cases.case("timeouts", timeouts);
    cases.case("loops", loops);
    cases.case("retries", retries);
    cases.case("guards", guards);
    cases.case("variables", variables);
    cases.all_pass().await;
}

/// A payload that names a file of the town for the witness.
fn with_witness(town: &Town, file: &str, more: &str) -> String {
    let witness = quoted(town.file(file).display());
    format!(r#"{{"witness":{witness}{more}}}"#)
}

async fn sleep(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/sleep", "{}").await;
    let result = town.result(run).await;
    assert_eq!(result, json(r#"{"slept":true,"at_once":true}"#));
    assert_eq!(town.events(run, EventType::TimerFired).await.len(), 2);
    vec![run]
}

async fn wait_any(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/wait_any", r#"{"order":8}"#).await;
    town.parked(run, "payment").await;
    let others = r#"{"name":"paid","key":"9","payload":{"sum":1}}"#;
    assert!(!town.signal(run, others).await, "it is about another order");
    let nothing = format!("/api/executions/{run}/signal");
    let unfit = town
        .post(
            &nothing,
            r#"{"name":"paid","key":"8","payload":{"total":1}}"#,
        )
        .await;
    assert_eq!(
        (unfit.status, unfit.code()),
        (422, "validation"),
        "{unfit:?}"
    );
    let reserved = town.post(&nothing, r#"{"name":"approval"}"#).await;
    assert_eq!(reserved.status, 422, "{reserved:?}");
    let right = r#"{"name":"paid","key":"8","payload":{"sum":30}}"#;
    assert!(town.signal(run, right).await);
    assert_eq!(town.result(run).await, json(r#"{"shipped":8,"sum":30}"#));

    let voided = town.start("constructs/wait_any", "{}").await;
    town.parked(voided, "payment").await;
    let signal = r#"{"name":"voided","key":"7","payload":{"sum":0}}"#;
    assert!(town.signal(voided, signal).await);
    assert_eq!(town.result(voided).await, json(r#"{"shipped":null}"#));
    vec![run, voided]
}

async fn wait_all(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/wait_all", "{}").await;
    town.parked(run, "papers").await;
    assert!(
        town.signal(run, r#"{"name":"invoice","payload":{"sum":3}}"#)
            .await
    );
    assert!(
        town.signal(run, r#"{"name":"goods","payload":["a","b"]}"#)
            .await
    );
    let expected = json(r#"{"goods":["a","b"],"bill":{"sum":3}}"#);
    assert_eq!(town.result(run).await, expected);
    vec![run]
}

async fn wait_lookback(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/wait_lookback", "{}").await;
    town.parked(run, "door").await;
    for text in ["older", "newer"] {
        let letter = format!(r#"{{"name":"letter","payload":{{"text":"{text}"}}}}"#);
        assert!(!town.signal(run, &letter).await, "nobody waits for it yet");
    }
    assert!(town.signal(run, r#"{"name":"open"}"#).await);
    assert_eq!(town.result(run).await, Json::from("older"));
    vec![run]
}

async fn wait_timeout(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/wait_timeout", "{}").await;
    assert_eq!(town.result(run).await, Json::from("gave up"));
    let late = town
        .post(
            &format!("/api/executions/{run}/signal"),
            r#"{"name":"never"}"#,
        )
        .await;
    assert_eq!((late.status, late.code()), (409, "already_terminal"));
    vec![run]
}

async fn broadcast(town: Arc<Town>) -> Runs {
    let mut runs = Vec::new();
    for region in ["eu", "eu", "us", "eu"] {
        let payload = format!(r#"{{"region":"{region}"}}"#);
        let run = town.start("constructs/broadcast", &payload).await;
        town.parked(run, "market").await;
        runs.push(run);
    }
    let american = runs.remove(2);
    let send = |key: &str, price: u32| {
        format!(r#"{{"name":"market_open","key":"{key}","payload":{{"price":{price}}}}}"#)
    };
    let sent = town.post("/api/signals", &send("eu", 3)).await.ok();
    let delivered = sent.get("delivered").and_then(Json::as_list);
    let mut delivered = delivered.expect("a list").to_vec();
    delivered.sort_by_key(Json::to_string);
    let mut expected: Vec<Json> = runs.iter().map(|run| Json::from(run.to_string())).collect();
    expected.sort_by_key(Json::to_string);
    assert_eq!(delivered, expected);
    for run in &runs {
        assert_eq!(town.result(*run).await, Json::from(3));
    }
    assert!(!town.caller().status(american).await.completed);
    town.post("/api/signals", &send("us", 4)).await.ok();
    assert_eq!(town.result(american).await, Json::from(4));
    runs.push(american);
    runs
}

async fn approval(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/approval", "{}").await;
    town.parked(run, "ask").await;
    let empty = town
        .decide(run, r#"{"step":"ask","decision":"approve"}"#)
        .await;
    assert_eq!(empty.status, 422, "the form is not filled in: {empty:?}");
    let inbox = town.get("/api/approvals").await.ok();
    let asked = inbox.get("approvals").and_then(Json::as_list);
    let asks = |view: &&Json| view.get("execution_id") == Some(&Json::from(run.to_string()));
    let view = asked.expect("a list").iter().find(asks).expect("an entry");
    assert_eq!(view.get("title"), Some(&Json::from("Pay 900?")));
    let yes = r#"{"step":"ask","decision":"approve","comment":"fine","values":{"account":"A1"}}"#;
    let answer = town.decide(run, yes).await.ok();
    assert_eq!(answer.get("decision"), Some(&Json::from("approve")));
    let expected = json(r#"{"paid_from":"A1","comment":"fine"}"#);
    assert_eq!(town.result(run).await, expected);
    let late = town.decide(run, yes).await;
    assert_eq!(late.status, 409, "{late:?}");

    let refused = town.start("constructs/approval", "{}").await;
    town.parked(refused, "ask").await;
    let no = r#"{"step":"ask","decision":"reject","comment":"too much"}"#;
    town.decide(refused, no).await.ok();
    let expected = json(r#"{"refused":true,"comment":"too much"}"#);
    assert_eq!(town.result(refused).await, expected);
    vec![run, refused]
}

/// Everybody on this machine is the same person, who counts once.
async fn approval_quorum(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/approval_quorum", "{}").await;
    town.parked(run, "ask").await;
    let yes = r#"{"step":"ask","decision":"approve"}"#;
    town.decide(run, yes).await.ok();
    let again = town.decide(run, yes).await;
    assert_eq!((again.status, again.code()), (409, "already_decided"));
    let expected = json(r#"{"approved":false,"by":null}"#);
    assert_eq!(town.result(run).await, expected);
    vec![run]
}

/// A run that another one names.
fn named(value: Option<&Json>) -> ExecutionId {
    let text = value.and_then(Json::as_str).expect("an id");
    text.parse().expect("an id")
}

/// The runs that a run has started.
async fn started_by(town: &Town, run: ExecutionId) -> Vec<ExecutionId> {
    let query = noetl_api::query::ExecutionsQuery {
        parent: Some(run),
        ..noetl_api::query::ExecutionsQuery::default()
    };
    let list = town.caller().0.executions(&query).await.expect("a list");
    let runs = list.executions.iter();
    runs.map(|line| line.execution_id).collect()
}

async fn children(town: Arc<Town>) -> Runs {
    town.register("constructs/child").await;
    let run = town.start("constructs/parent", "{}").await;
    let result = town.result(run).await;
    let aside = named(result.get("aside"));
    let part = |name: &str| result.get(name).cloned().unwrap_or_default();
    assert_eq!(part("whole"), Json::from(15));
    assert_eq!(part("part"), Json::from(12));
    assert_eq!(part("is_async"), Json::from(true));
    assert_eq!(town.result(aside).await, json(r#"{"tripled":21}"#));
    let mut runs = started_by(&town, run).await;
    assert_eq!(runs.len(), 3);
    runs.push(run);
    runs
}

async fn children_that_fail(town: Arc<Town>) -> Runs {
    town.register("constructs/child").await;
    let run = town.start("constructs/parent_of_failure", "{}").await;
    assert_eq!(town.result(run).await, Json::from("child"));
    let children = started_by(&town, run).await;
    let status = town.ended(children[0]).await;
    assert_eq!(status.status, ExecutionStatus::Failed);
    vec![run, children[0]]
}

async fn children_that_linger(town: Arc<Town>) -> Runs {
    town.register("constructs/child").await;
    let hasty = town.start("constructs/parent_in_a_hurry", "{}").await;
    let calm = town.start("constructs/parent_that_leaves", "{}").await;
    assert_eq!(town.result(hasty).await, Json::from("late"));
    assert_eq!(town.result(calm).await, Json::from("late"));
    let ended = started_by(&town, hasty).await[0];
    assert_eq!(town.ended(ended).await.status, ExecutionStatus::Cancelled);
    let left = started_by(&town, calm).await[0];
    town.parked(left, "linger").await;
    assert_eq!(
        town.caller().status(left).await.status,
        ExecutionStatus::Running
    );
    assert!(town.signal(left, r#"{"name":"wake_up"}"#).await);
    town.result(left).await;
    vec![hasty, calm, ended, left]
}

async fn children_in_a_loop(town: Arc<Town>) -> Runs {
    town.register("constructs/child").await;
    let run = town.start("constructs/children_in_a_loop", "{}").await;
    assert_eq!(town.result(run).await, json("[3,6,9]"));
    vec![run]
}

async fn pipeline(town: Arc<Town>) -> Runs {
    let payload = with_witness(&town, "pipeline", "");
    let run = town.start("constructs/pipeline", &payload).await;
    let result = town.result(run).await;
    assert_eq!(result, json(r#"{"sum":88,"labels":3,"n":21}"#));
    assert_eq!(town.lines("pipeline"), ["21 21 42 4"]);
    // The tasks before the sleep, the sleep, and those after it; and the report.
    assert_eq!(town.events(run, EventType::CommandIssued).await.len(), 4);
    vec![run]
}

async fn cursor_sqlite(town: Arc<Town>) -> Runs {
    let file = format!(r#","file":{}"#, quoted(town.file("jobs.db").display()));
    let payload = with_witness(&town, "cursor_sqlite", &file);
    let run = town.start("constructs/cursor_sqlite", &payload).await;
    let expected = json(r#"{"rows":[{"state":"done","n":25}],"total":25}"#);
    assert_eq!(town.result(run).await, expected);
    each_once(&town.lines("cursor_sqlite"), 25);
    vec![run]
}

async fn cursor_postgres(town: Arc<Town>) -> Runs {
    let dsn = format!(r#","dsn":{}"#, quoted(town.tables.config()));
    let payload = with_witness(&town, "cursor_postgres", &dsn);
    let run = town.start("constructs/cursor_postgres", &payload).await;
    let expected = json(r#"{"rows":[{"state":"done","n":40}],"total":40}"#);
    assert_eq!(town.result(run).await, expected);
    each_once(&town.lines("cursor_postgres"), 40);
    vec![run]
}

/// The numbers from 1, each on one line.
fn each_once(lines: &[String], count: u32) {
    let mut seen: Vec<u32> = lines
        .iter()
        .map(|line| line.parse().expect("a number"))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=count).collect::<Vec<_>>());
}

async fn cache(town: Arc<Town>) -> Runs {
    let payload =
        |subject: &str| with_witness(&town, "cache", &format!(r#","subject":"{subject}""#));
    let mut runs = Vec::new();
    for subject in ["owls", "owls", "bats"] {
        let run = town.start("constructs/cache", &payload(subject)).await;
        assert_eq!(town.result(run).await, Json::from("done"));
        runs.push(run);
    }
    assert_eq!(town.lines("cache"), ["owls", "bats"]);
    // Only the report of the second run was work for anybody.
    assert_eq!(
        town.events(runs[1], EventType::CommandIssued).await.len(),
        1
    );
    runs
}

async fn final_step(town: Arc<Town>) -> Runs {
    let payload = |code: u8| with_witness(&town, "final_step", &format!(r#","code":{code}"#));
    let good = town.start("constructs/final_step", &payload(0)).await;
    town.result(good).await;
    let (bad, error) = town.fails("constructs/final_step", &payload(3)).await;
    assert!(error.contains('3'), "{error}");
    assert_eq!(town.lines("final_step"), ["0 COMPLETED", "3 FAILED"]);
    vec![good, bad]
}

/// How many were inside at once at most, of those who left a plus and a minus.
pub(crate) fn most_inside(lines: &[String]) -> usize {
    let (mut inside, mut most) = (0_usize, 0);
    for line in lines {
        match line.as_str() {
            "+" => inside += 1,
            "-" => inside = inside.checked_sub(1).expect("who leaves has entered"),
            other => panic!("{other:?}"),
        }
        most = most.max(inside);
    }
    assert_eq!(inside, 0, "all have left");
    most
}

async fn concurrency(town: Arc<Town>) -> Runs {
    narrow(town, "constructs/concurrency", "concurrency", (8, 2)).await
}

async fn one_at_a_time(town: Arc<Town>) -> Runs {
    narrow(town, "constructs/one_at_a_time", "one_at_a_time", (5, 1)).await
}

/// So many runs, of which so many may be inside at once.
async fn narrow(town: Arc<Town>, name: &str, file: &str, (count, limit): (usize, usize)) -> Runs {
    let payload = with_witness(&town, file, "");
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(town.start(name, &payload).await);
    }
    for run in &runs {
        town.ended(*run).await;
    }
    let lines = town.lines(file);
    assert_eq!(lines.len(), 2 * count);
    let most = most_inside(&lines);
    assert!((1..=limit).contains(&most), "{most} at once");
    runs
}

/// All wait for a worker of their own, which takes one at a time and comes last.
async fn priority(town: Arc<Town>) -> Runs {
    let path = town.register("constructs/priority").await;
    let mut runs = Vec::new();
    for rank in [-5, 0, 9, 1] {
        let payload = with_witness(&town, "priority", &format!(r#","rank":{rank}"#));
        let request = ExecuteRequest {
            path: Some(path.clone()),
            payload: Some(json(&payload)),
            execution_pool: Some(PoolName::new("narrow").expect("a name")),
            ..ExecuteRequest::default()
        };
        runs.push(town.start_request(request).await);
    }
    let more = ["--pool", "narrow", "--concurrency", "1"];
    let _worker = town.house.worker_of_pool(&town.servers[0], "narrow", &more);
    for run in &runs {
        town.result(*run).await;
    }
    assert_eq!(town.lines("priority"), ["9", "1", "0", "-5"]);
    runs
}

async fn timeouts(town: Arc<Town>) -> Runs {
    let payload = with_witness(&town, "step_timeout", "");
    let step = town.start("constructs/step_timeout", &payload).await;
    let payload = with_witness(&town, "execution_timeout", "");
    let (whole, error) = town.fails("constructs/execution_timeout", &payload).await;
    assert!(error.contains("time"), "{error}");
    assert_eq!(town.result(step).await, Json::from("caught"));
    for file in ["step_timeout", "execution_timeout"] {
        let file = town.file(file);
        until("the process is gone", || !lives(&file)).await;
    }
    vec![step, whole]
}

async fn loops(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/loops", "{}").await;
    let expected = json(
        r#"{"trail":"Bonn,Ulm,Kiel,","fly":["0:Bonn","1:Ulm","2:Kiel"],
            "stats":{"total":4,"success":3,"failed":1},"failed":[2],"nothing":0}"#,
    );
    assert_eq!(town.result(run).await, expected);
    vec![run]
}

async fn retries(town: Arc<Town>) -> Runs {
    let payload = with_witness(&town, "retries", "");
    let run = town.start("constructs/retries", &payload).await;
    assert_eq!(town.result(run).await, Json::from("COMPLETED"));
    until_lines(&town, "retries", 3).await;
    let keys = town.lines("retries");
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "one key: {keys:?}");
    assert_eq!(town.events(run, EventType::CallError).await.len(), 2);
    vec![run]
}

async fn guards(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/guards", "{}").await;
    let expected = json(r#"["SKIPPED","COMPLETED","SKIPPED"]"#);
    assert_eq!(town.result(run).await, expected);
    vec![run]
}

async fn variables(town: Arc<Town>) -> Runs {
    let run = town
        .start("constructs/variables", r#"{"deep":{"b":7}}"#)
        .await;
    let expected = json(
        r#"{"python":{"greeting":"hello world","map":{"inner":"world"},"from_arc":4},
            "all":[2,3,4,1,7]}"#,
    );
    assert_eq!(town.result(run).await, expected);
    vec![run]
}

async fn large_result(town: Arc<Town>) -> Runs {
    let run = town.start("constructs/large_result", "{}").await;
    let expected = json(r#"{"name":"row 1100","count":2000,"kept":true}"#);
    assert_eq!(town.result(run).await, expected);
    let query = noetl_api::query::DetailQuery::default();
    let detail = town.caller().0.execution(run, &query).await;
    let log = detail.expect("a run").events;
    let size = serde_json::to_string(&log).expect("JSON").len();
    assert!(size < 200_000, "the log holds {size} bytes");
    vec![run]
}
