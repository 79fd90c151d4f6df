//! Runs every playbook of `examples` as its header describes, against fake services.

use std::collections::BTreeSet;

use noetl_testkit::postgres::TestDatabase;

use crate::cli::fake_services::FakeServices;
use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::serve::{http_get, http_post, start_listening};
use crate::cli::support::{CRATE_DIR, CommandOutput, TestDir};

/// Examples. Each is run by a test here, or in `run.rs` if its progress is checked.
const EXAMPLES: [&str; 15] = [
    "approval", "big_results", "error_handling", "fan_out_and_join", "files_in_parallel", "hello",
    "http_pagination", "http_retry", "mcp_tool", "parallel_loop", "postgres_pipeline", "retries",
    "sqlite_etl", "sub_playbooks", "sub_playbooks_region",
];

fn example_path(name: &str) -> String {
    format!("{CRATE_DIR}/../../examples/{name}.yaml")
}

/// Runs an example, whose result is one line of JSON.
fn run_example(dir: &TestDir, name: &str, sets: &[&str]) -> CommandOutput {
    let file = example_path(name);
    let mut args = vec!["run", &*file, "--quiet", "--output", "text"];
    args.extend(sets.iter().flat_map(|set| ["--set", *set]));
    isolated_command(dir, &args).output().unwrap().into()
}

/// Runs an example that must complete and returns its result.
fn run_example_ok(dir: &TestDir, name: &str, sets: &[&str]) -> String {
    let output = run_example(dir, name, sets);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    output.out.trim_end().to_owned()
}

#[test]
fn every_example_has_test_and_header() {
    let files = std::fs::read_dir(format!("{CRATE_DIR}/../../examples")).unwrap();
    let names: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let expected = EXAMPLES.map(|name| format!("{name}.yaml"));
    assert_eq!(names, BTreeSet::from(expected));
    for name in EXAMPLES {
        let text = std::fs::read_to_string(example_path(name)).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let has = |expected: &str| header.iter().any(|line| line.contains(expected));
        assert!(has(&format!("noetl run examples/{name}.yaml")), "{name}");
        assert!(has(" prints "), "{name}");
    }
}

#[test]
fn pagination_retries_busy_page() {
    let (dir, services) = (TestDir::new("example_pagination"), FakeServices::open());
    let set = services.set_argument("orders_url", "/orders");
    let expected = r#"{"orders":5,"pages":3,"total":150}"#;
    assert_eq!(run_example_ok(&dir, "http_pagination", &[&set]), expected);
    let bounded = run_example(&dir, "http_pagination", &[&*set, "max_pages=2"]);
    assert_eq!(bounded.code, 1, "{}", bounded.to_snapshot());
    let rule =
        "a rule of the policy failed the task: when {{ fetch.data.next and output.data.pages";
    assert!(bounded.err.contains(rule), "{}", bounded.to_snapshot());
}

#[test]
fn rate_request_is_retried_with_fallback() {
    let (dir, services) = (TestDir::new("example_retry"), FakeServices::open());
    let set = services.set_argument("rates_url", "/rates");
    let expected = r#"{"rate":1.25,"source":"service"}"#;
    assert_eq!(run_example_ok(&dir, "http_retry", &[&set]), expected);
    let unlisted = [&*set, "currency=XXX"];
    let expected = r#"{"rate":1.08,"source":"fallback: unlisted"}"#;
    assert_eq!(run_example_ok(&dir, "http_retry", &unlisted), expected);
}

#[test]
fn sub_playbooks_return_results() {
    let dir = TestDir::new("example_children");
    // The other playbook is read from the file beside this one.
    let first = run_example_ok(&dir, "sub_playbooks", &["regions=[north]"]);
    assert_eq!(first, r#"{"problems":[],"regions":["north"],"revenue":100}"#);
    let single = run_example_ok(&dir, "sub_playbooks_region", &[]);
    assert_eq!(single, r#"{"region":"north","revenue":100}"#);
    let complete = run_example_ok(&dir, "sub_playbooks", &[]);
    let expected = r#"{"problems":[],"regions":["north","south","west"],"revenue":600}"#;
    assert_eq!(complete, expected);
    let partial = run_example_ok(&dir, "sub_playbooks", &["regions=[north, nowhere]"]);
    assert!(partial.starts_with(r#"{"problems":["#), "{partial}");
    assert!(partial.contains("KeyError: 'nowhere'"), "{partial}");
    assert!(partial.ends_with(r#""regions":["north"],"revenue":100}"#), "{partial}");
}

#[test]
fn large_refund_waits_for_approval() {
    let dir = TestDir::new("example_approval");
    let small = run_example_ok(&dir, "approval", &["amount=50"]);
    assert_eq!(small, r#"{"from":"petty_cash","paid":50}"#);
    let args = ["run", &*example_path("approval"), "--set", "amount=50"];
    let without_server: CommandOutput = isolated_command(&dir, &args).output().unwrap().into();
    let hint = "step 'ask' can wait for an answer; give it in another terminal with: noetl runs approve last\n";
    assert!(without_server.err.starts_with(hint), "{}", without_server.err);

    let (_dev, url) = start_listening(&dir, &["dev", "--port", "0"]);
    let decide = |decision: &str| {
        let mut run = NoetlProcess::start(isolated_command(
            &dir,
            &["run", &example_path("approval"), "--output", "text"],
        ));
        let first = run.wait_for_stderr(" · run ");
        assert!(first.contains(" · at http://"), "the server executes the run: {first}");
        let id = first.split("run ").nth(1).unwrap();
        let id = id.split(' ').next().unwrap();
        crate::cli::support::wait_until("the approval is pending", || {
            http_get(&url, "/api/approvals").contains(id)
        });
        let response = http_post(&url, &format!("/api/executions/{id}/approve"), decision);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let (code, out, err) = run.wait_for_exit();
        assert_eq!(code, 0, "{err}");
        out
    };
    let yes = decide(r#"{"step": "ask", "decision": "approve", "values": {"account": "A1"}}"#);
    assert_eq!(yes, r#"{"from":"A1","paid":900}"#);
    let no = decide(r#"{"step": "ask", "decision": "reject", "comment": "too much"}"#);
    assert_eq!(no, r#"{"paid":0,"reason":"too much"}"#);
}

#[test]
fn daily_load_is_idempotent() {
    let (dir, services) = (TestDir::new("example_etl"), FakeServices::open());
    let sales = services.set_argument("sales_url", "/sales");
    let database = format!("database={}", dir.path("sales.db").display());
    let sets = [&*sales, &*database, "day=2026-03-01"];
    let expected = r#"{"day":"2026-03-01","loaded":2,"rejected":1,"revenue":42.5}"#;
    assert_eq!(run_example_ok(&dir, "sqlite_etl", &sets), expected);
    assert_eq!(run_example_ok(&dir, "sqlite_etl", &sets), expected);
    let scheduled = [&*sales, &*database, "schedule.scheduled_at=2026-03-02T02:00:00Z"];
    let expected = r#"{"day":"2026-03-02","loaded":0,"rejected":0,"revenue":0}"#;
    assert_eq!(run_example_ok(&dir, "sqlite_etl", &scheduled), expected);
}

#[test]
fn parallel_files_report_unreadable_file() {
    let dir = TestDir::new("example_files");
    dir.write("texts/a.txt", "one two")
        .write("texts/b.txt", "one two three four")
        .write("texts/c.txt", "one two")
        .write("texts/other.md", "not this one");
    let set = format!("folder={}", dir.path("texts").display());
    let expected = r#"{"failed":[],"files":3,"longest":"b.txt","words":8}"#;
    assert_eq!(run_example_ok(&dir, "files_in_parallel", &[&set]), expected);
    dir.write("texts/z.txt", [0xff, 0xfe]);
    let unreadable = run_example_ok(&dir, "files_in_parallel", &[&set]);
    let expected = "/texts/z.txt: UnicodeDecodeError";
    assert!(unreadable.contains(expected), "{unreadable}");
    let missing = run_example(&dir, "files_in_parallel", &["folder=/not/there"]);
    assert_eq!(missing.code, 1, "{}", missing.to_snapshot());
}

#[test]
fn large_result_is_read_by_reference() {
    let dir = TestDir::new("example_big");
    let result = run_example_ok(&dir, "big_results", &[]);
    assert!(result.starts_with(r#"{"kept":"noetl://execution/"#), "{result}");
    let expected = r#""middle":{"id":10000,"text":"row number 10000"},"rows":20000,"same":true}"#;
    assert!(result.ends_with(expected), "{result}");
}

#[test]
fn mcp_tool_is_called() {
    let (dir, services) = (TestDir::new("example_mcp"), FakeServices::open());
    let set = services.set_argument("endpoint", "/mcp");
    let expected = r#"{"answer":"5","sum":5,"tools":["add"]}"#;
    assert_eq!(run_example_ok(&dir, "mcp_tool", &[&set]), expected);
}

#[test]
fn postgres_pipeline_rejects_bad_orders() {
    let (dir, services) = (TestDir::new("example_postgres"), FakeServices::open());
    let tables = TestDatabase::new().unwrap();
    let database = format!("database={}", tables.connection_config());
    let good = services.set_argument("orders_url", "/orders");
    let expected = concat!(
        r#"{"customers":[{"customer":"Ada","orders":2,"revenue":"60.00"},"#,
        r#"{"customer":"Bob","orders":2,"revenue":"60.00"},"#,
        r#"{"customer":"Cyd","orders":1,"revenue":"30.00"}],"merged":5,"staged":5}"#
    );
    for _ in 0..2 {
        let actual = run_example_ok(&dir, "postgres_pipeline", &[&good, &database]);
        assert_eq!(actual, expected);
    }
    let bad = services.set_argument("orders_url", "/bad_orders");
    let output = run_example(&dir, "postgres_pipeline", &[&bad, &database]);
    assert_eq!(output.code, 1, "{}", output.to_snapshot());
    assert!(output.err.contains("nothing was merged"), "{}", output.to_snapshot());
}
