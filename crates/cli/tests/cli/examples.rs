//! Every playbook of the folder `examples`, run as its header says, against a real world outside.

use std::collections::BTreeSet;

use noetl_testkit::postgres::Database;

use crate::outside::Outside;
use crate::process::Process;
use crate::run::at_home;
use crate::serve::{get, listening, post};
use crate::support::{CRATE, Folder, Ran};

/// The examples, each of which a test runs: here, or in `run.rs` where its progress is looked at.
const EXAMPLES: [&str; 15] = [
    "approval",
    "big_results",
    "error_handling",
    "fan_out_and_join",
    "files_in_parallel",
    "hello",
    "http_pagination",
    "http_retry",
    "mcp_tool",
    "parallel_loop",
    "postgres_pipeline",
    "retries",
    "sqlite_etl",
    "sub_playbooks",
    "sub_playbooks_region",
];

fn path(name: &str) -> String {
    format!("{CRATE}/../../examples/{name}.yaml")
}

/// Runs an example; its result is one line of JSON.
fn run(folder: &Folder, name: &str, sets: &[&str]) -> Ran {
    let file = path(name);
    let mut args = vec!["run", &*file, "--quiet", "--output", "text"];
    args.extend(sets.iter().flat_map(|set| ["--set", *set]));
    at_home(folder, &args).output().unwrap().into()
}

/// Runs an example that must complete; gives its result.
fn result(folder: &Folder, name: &str, sets: &[&str]) -> String {
    let ran = run(folder, name, sets);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran.out.trim_end().to_owned()
}

#[test]
fn every_example_has_a_test_and_a_header_that_says_how_to_run_it_and_what_it_prints() {
    let files = std::fs::read_dir(format!("{CRATE}/../../examples")).unwrap();
    let names: BTreeSet<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = EXAMPLES.map(|name| format!("{name}.yaml"));
    assert_eq!(names, BTreeSet::from(expected));
    for name in EXAMPLES {
        let text = std::fs::read_to_string(path(name)).unwrap();
        let header: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        let has = |wanted: &str| header.iter().any(|line| line.contains(wanted));
        assert!(has(&format!("noetl run examples/{name}.yaml")), "{name}");
        assert!(has(" prints "), "{name}");
    }
}

#[test]
fn pages_are_read_to_the_end_though_one_is_busy() {
    let (folder, outside) = (Folder::new("example_pagination"), Outside::open());
    let set = outside.set("orders_url", "/orders");
    let expected = r#"{"orders":5,"pages":3,"total":150}"#;
    assert_eq!(result(&folder, "http_pagination", &[&set]), expected);
    let bounded = [&*set, "max_pages=2"];
    let expected = r#"{"orders":4,"pages":2,"total":100}"#;
    assert_eq!(result(&folder, "http_pagination", &bounded), expected);
}

#[test]
fn a_rate_is_asked_for_until_it_comes_and_one_that_is_not_listed_is_replaced() {
    let (folder, outside) = (Folder::new("example_retry"), Outside::open());
    let set = outside.set("rates_url", "/rates");
    let expected = r#"{"rate":1.25,"source":"service"}"#;
    assert_eq!(result(&folder, "http_retry", &[&set]), expected);
    let unlisted = [&*set, "currency=XXX"];
    let expected = r#"{"rate":1.08,"source":"fallback: unlisted"}"#;
    assert_eq!(result(&folder, "http_retry", &unlisted), expected);
}

#[test]
fn a_playbook_uses_another_one() {
    let folder = Folder::new("example_children");
    let none = result(&folder, "sub_playbooks", &["regions=[north]"]);
    let problem = "nothing is registered at `examples/sub_playbooks_region`";
    assert!(none.contains(problem), "{none}");
    let one = result(&folder, "sub_playbooks_region", &[]);
    assert_eq!(one, r#"{"region":"north","revenue":100}"#);
    let all = result(&folder, "sub_playbooks", &[]);
    let expected = r#"{"problems":[],"regions":["north","south","west"],"revenue":600}"#;
    assert_eq!(all, expected);
    let some = result(&folder, "sub_playbooks", &["regions=[north, nowhere]"]);
    assert!(some.starts_with(r#"{"problems":["#), "{some}");
    assert!(some.contains("KeyError: 'nowhere'"), "{some}");
    assert!(
        some.ends_with(r#""regions":["north"],"revenue":100}"#),
        "{some}"
    );
}

#[test]
fn a_large_refund_waits_for_a_person() {
    let folder = Folder::new("example_approval");
    let small = result(&folder, "approval", &["amount=50"]);
    assert_eq!(small, r#"{"from":"petty_cash","paid":50}"#);
    let args = ["run", &*path("approval"), "--set", "amount=50"];
    let alone: Ran = at_home(&folder, &args).output().unwrap().into();
    let hint = "'ask' waits for an answer, which only a server takes: run this beside noetl dev\n";
    assert!(alone.err.starts_with(hint), "{}", alone.err);

    let (_dev, url) = listening(&folder, &["dev", "--port", "0"]);
    let decide = |decision: &str| {
        let mut run = Process::start(at_home(
            &folder,
            &["run", &path("approval"), "--output", "text"],
        ));
        let first = run.tells(" · run ");
        assert!(
            first.contains(" · at http://"),
            "a server takes answers: {first}"
        );
        let id = first.split("run ").nth(1).unwrap();
        let id = id.split(' ').next().unwrap();
        crate::support::wait_until("the inbox has it", || {
            get(&url, "/api/approvals").contains(id)
        });
        let answer = post(&url, &format!("/api/executions/{id}/approve"), decision);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (code, out, err) = run.end();
        assert_eq!(code, 0, "{err}");
        out
    };
    let yes = decide(r#"{"step": "ask", "decision": "approve", "values": {"account": "A1"}}"#);
    assert_eq!(yes, r#"{"from":"A1","paid":900}"#);
    let no = decide(r#"{"step": "ask", "decision": "reject", "comment": "too much"}"#);
    assert_eq!(no, r#"{"paid":0,"reason":"too much"}"#);
}

#[test]
fn a_day_that_is_loaded_twice_is_there_once() {
    let (folder, outside) = (Folder::new("example_etl"), Outside::open());
    let sales = outside.set("sales_url", "/sales");
    let database = format!("database={}", folder.path("sales.db").display());
    let sets = [&*sales, &*database, "day=2026-03-01"];
    let expected = r#"{"day":"2026-03-01","loaded":2,"rejected":1,"revenue":42.5}"#;
    assert_eq!(result(&folder, "sqlite_etl", &sets), expected);
    assert_eq!(result(&folder, "sqlite_etl", &sets), expected);
    let scheduled = [
        &*sales,
        &*database,
        "schedule.scheduled_at=2026-03-02T02:00:00Z",
    ];
    let expected = r#"{"day":"2026-03-02","loaded":0,"rejected":0,"revenue":0}"#;
    assert_eq!(result(&folder, "sqlite_etl", &scheduled), expected);
}

#[test]
fn files_are_read_side_by_side_and_one_that_is_no_text_is_named() {
    let folder = Folder::new("example_files");
    folder
        .write("texts/a.txt", "one two")
        .write("texts/b.txt", "one two three four")
        .write("texts/c.txt", "one two")
        .write("texts/other.md", "not this one");
    let set = format!("folder={}", folder.path("texts").display());
    let expected = r#"{"failed":[],"files":3,"longest":"b.txt","words":8}"#;
    assert_eq!(result(&folder, "files_in_parallel", &[&set]), expected);
    folder.write("texts/z.txt", [0xff, 0xfe]);
    let with_one_more = result(&folder, "files_in_parallel", &[&set]);
    let wanted = "/texts/z.txt: UnicodeDecodeError";
    assert!(with_one_more.contains(wanted), "{with_one_more}");
    let nowhere = run(&folder, "files_in_parallel", &["folder=/not/there"]);
    assert_eq!(nowhere.code, 1, "{}", nowhere.shown());
}

#[test]
fn a_big_result_is_found_by_its_reference() {
    let folder = Folder::new("example_big");
    let found = result(&folder, "big_results", &[]);
    assert!(
        found.starts_with(r#"{"kept":"noetl://execution/"#),
        "{found}"
    );
    let wanted = r#""middle":{"id":10000,"text":"row number 10000"},"rows":20000,"same":true}"#;
    assert!(found.ends_with(wanted), "{found}");
}

#[test]
fn a_tool_of_an_mcp_server_is_called() {
    let (folder, outside) = (Folder::new("example_mcp"), Outside::open());
    let set = outside.set("endpoint", "/mcp");
    let expected = r#"{"answer":"5","sum":5,"tools":["add"]}"#;
    assert_eq!(result(&folder, "mcp_tool", &[&set]), expected);
}

#[test]
fn orders_end_in_postgres_and_bad_ones_stop_before() {
    let (folder, outside) = (Folder::new("example_postgres"), Outside::open());
    let tables = Database::new().unwrap();
    let database = format!("database={}", tables.config());
    let good = outside.set("orders_url", "/orders");
    let expected = concat!(
        r#"{"customers":[{"customer":"Ada","orders":2,"revenue":"60.00"},"#,
        r#"{"customer":"Bob","orders":2,"revenue":"60.00"},"#,
        r#"{"customer":"Cyd","orders":1,"revenue":"30.00"}],"merged":5,"staged":5}"#
    );
    for _ in 0..2 {
        let told = result(&folder, "postgres_pipeline", &[&good, &database]);
        assert_eq!(told, expected);
    }
    let bad = outside.set("orders_url", "/bad_orders");
    let ran = run(&folder, "postgres_pipeline", &[&bad, &database]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.err.contains("nothing was merged"), "{}", ran.shown());
}
