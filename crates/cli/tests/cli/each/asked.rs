//! Commands that ask a server about playbooks, runs and secrets.

use super::Shown;
use crate::asking::House;

const SMALL: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: small, path: demo/small }
workload: { who: world }
workflow:
  - step: say
    tool: { kind: shell, command: 'echo hello' }
";

/// A house with a playbook, whose worker has a name.
fn house(test: &str) -> House {
    let house = House::with(test, &[("WORKER_ID", "w1")]);
    house.folder.write("small.yaml", SMALL);
    house
}

#[test]
fn definitions() {
    let house = house("each_catalog");
    let line = |args: &[&str]| house.command(args);
    let show = || Shown::new(&line);
    let list = show().both(&["catalog", "list"]);
    let register = show().piped(&["catalog", "register", "small.yaml", "two.yaml"]);
    house
        .folder
        .write("small.yaml", SMALL.replace("world", "moon"));
    register
        .on_terminal(&["catalog", "register", "small.yaml"], "")
        .is("catalog_register", &[]);
    list.both(&["catalog", "list"]).is("catalog_list", &[]);
    show()
        .both(&["catalog", "get", "demo/small@1"])
        .both(&["catalog", "get", "demo/smal"])
        .is("catalog_get", &[]);
    show()
        .both(&["catalog", "history", "demo/small"])
        .is("catalog_history", &[]);
    show()
        .both(&["catalog", "diff", "demo/small"])
        .both(&["catalog", "diff", "demo/two"])
        .is("catalog_diff", &[]);
}

#[test]
fn runs_that_end() {
    let house = house("each_runs");
    let line = |args: &[&str]| house.command(args);
    let show = || Shown::new(&line);
    let list = show().both(&["runs", "list"]);
    house.get(&["catalog", "register", "small.yaml", "fails.yaml"]);
    show()
        .both(&["exec", "demo/small", "--wait"])
        .both(&["exec", "demo/small"])
        .both(&["exec", "demo/small", "--set", "whom=Ada"])
        .both(&["exec", "demo/smal"])
        .is("exec", &[(house.url(), "URL")]);
    let id = house.get(&["exec", "demo/small"]).trim().to_owned();
    let masks = [(id.as_str(), "ID")];
    show()
        .both(&["runs", "tail", &id])
        .both(&["runs", "tail", "none"])
        .is("runs_tail", &masks);
    show()
        .both(&["runs", "events", &id])
        .both(&["runs", "events", &id, "--step", "none"])
        .is("runs_events", &masks);
    show().both(&["runs", "logs", &id]).is("runs_logs", &masks);
    show().both(&["runs", "show", &id]).is("runs_show", &masks);
    show()
        .both(&["runs", "explain", &id])
        .is("runs_explain", &masks);
    show()
        .piped(&["runs", "rerun", &id])
        .on_terminal(&["runs", "rerun", &id, "--wait"], "")
        .is("runs_rerun", &masks);
    for run in house
        .get(&["runs", "list", "--status", "running", "-o", "jsonl"])
        .lines()
    {
        let run: serde_json::Value = serde_json::from_str(run).unwrap();
        house.ask(&["runs", "tail", run["execution_id"].as_str().unwrap()]);
    }
    list.both(&["runs", "list"]).is("runs_list", &[]);
}

#[test]
fn runs_that_wait() {
    let house = house("each_steered");
    let line = |args: &[&str]| house.command(args);
    let show = || Shown::new(&line);
    let first = house.started("waits.yaml", "demo/waits");
    let second = house.get(&["exec", "demo/waits"]).trim().to_owned();
    for run in [&first, &second] {
        house.until_it_waits(run, "approval");
    }
    let masks = [(first.as_str(), "ID"), (second.as_str(), "ID")];
    show()
        .piped(&["runs", "pause", &first, "--reason", "lunch"])
        .on_terminal(&["runs", "pause", &second], "")
        .is("runs_pause", &masks);
    show()
        .piped(&["runs", "resume", &first])
        .on_terminal(&["runs", "resume", &second], "")
        .is("runs_resume", &masks);
    let inbox = show().both(&["runs", "approve"]);
    inbox
        .piped(&["runs", "approve", &first, "--comment", "fine"])
        .on_terminal(&["runs", "approve", &second], "")
        .is("runs_approve", &masks);
    for run in [&first, &second] {
        house.until_it_waits(run, "signal");
    }
    show()
        .piped(&["runs", "signal", &first, "gone"])
        .piped(&["runs", "signal", &first, "go", "--set", "by=me"])
        .on_terminal(&["runs", "signal", &second, "gone"], "")
        .is("runs_signal", &masks);
    house.ask(&["runs", "tail", &first]);
    show()
        .piped(&["runs", "cancel", &first, "--yes"])
        .piped(&["runs", "cancel", &second])
        .on_terminal(&["runs", "cancel", &second], "no\n")
        .on_terminal(&["runs", "cancel", &second], "yes\n")
        .is(
            "runs_cancel",
            &[&masks[..], &[(house.url(), "URL")]].concat(),
        );
}

#[test]
fn secrets() {
    let token = ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");
    let house = House::with("each_secrets", &[token]);
    let line = |args: &[&str]| house.command(args);
    let show = || Shown::new(&line);
    let list = show().both(&["secret", "list"]);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let other = [
        "secret",
        "set",
        "pg_main",
        "--type",
        "postgres",
        "--description",
        "the warehouse",
    ];
    show()
        .fed(&set, "hidden")
        .on_terminal(
            &other,
            "{\"db_host\":\"db\",\"db_password\":\"hidden\"}\n\u{4}",
        )
        .is("secret_set", &[]);
    list.both(&["secret", "list"]).is("secret_list", &[]);
    show().both(&["secret", "rotate"]).is("secret_rotate", &[]);
    show()
        .piped(&["secret", "rm", "api_main"])
        .piped(&["secret", "rm", "api_main", "--yes"])
        .on_terminal(&["secret", "rm", "pg_main"], "yes\n")
        .on_terminal(&["secret", "rm", "pg_main"], "yes\n")
        .is("secret_rm", &[(house.url(), "URL")]);
    show()
        .both(&["secret", "audit", "api_main"])
        .both(&["secret", "audit", "none"])
        .is("secret_audit", &[]);
}
