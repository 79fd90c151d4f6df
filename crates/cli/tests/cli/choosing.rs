//! Which run, which rows and which server a command means, and what it shows before it acts.

use noetl_api::client::BearerToken;
use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest};
use noetl_api::{Client, ClientSettings};
use noetl_cli::Exit;
use serde_json::Value;

use crate::asking::House;
use crate::run::at_home;
use crate::serve::listening;
use crate::support::{CLEAN, Folder, Ran, wait_until};

const SECRET: &str = "sixteen characters and more";
const TOKEN: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", SECRET);

const PARENT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - step: child
    tool: { kind: playbook, path: demo/two }
";

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_last_run_is_one_that_somebody_started() {
    let house = House::with("choosing_last", &[TOKEN]);
    house.folder.write("parent.yaml", PARENT);
    house.get(&["catalog", "register", "two.yaml", "parent.yaml"]);
    house.get(&["exec", "demo/parent", "--wait", "-q"]);
    let all = || lines(&house.get(&["runs", "list", "--system", "-o", "jsonl"]));
    let is = |run: &Value, path: &str| run["path"] == path;
    // What the run wrote waits to be published, so that the platform starts somebody who does so.
    wait_until("the platform runs its publisher", || {
        all().iter().any(|run| is(run, "system/outbox_publisher"))
    });
    let all = all();
    let parent = all.iter().find(|run| is(run, "demo/parent")).unwrap();
    let place = |path| all.iter().position(|run| is(run, path)).unwrap();
    assert!(place("system/outbox_publisher") < place("demo/parent"));
    assert!(place("demo/two") < place("demo/parent"));
    let last = house.get(&["runs", "show", "last", "-o", "json"]);
    assert!(
        last.contains(parent["execution_id"].as_str().unwrap()),
        "{last}"
    );
    // Lists leave the platform out, unless it is asked for.
    let paths = |args: &[&str]| -> Vec<String> {
        let args = [&["runs", "list", "-o", "jsonl"], args].concat();
        let runs = lines(&house.get(&args));
        let paths = runs.iter().map(|run| run["path"].as_str().unwrap());
        paths.map(str::to_owned).collect()
    };
    assert_eq!(paths(&[]), ["demo/two", "demo/parent"]);
    let named = paths(&["--path", "system/"]);
    assert!(named.contains(&"system/outbox_publisher".to_owned()));
    let part = paths(&["--path", "publisher"]);
    assert!(part.contains(&"system/outbox_publisher".to_owned()));
    // And so does whoever cancels all of them.
    let dry = ["runs", "cancel", "--all", "--dry-run", "-o", "jsonl"];
    assert_eq!(house.get(&dry), "");
    assert_eq!(
        house.get(&[&dry[..], &["--path", "publisher"]].concat()),
        ""
    );
    let asked = house.get(&[&dry[..], &["--system"]].concat());
    assert!(asked.contains("system/outbox_publisher"), "{asked}");
}

#[test]
fn a_filter_does_not_go_with_a_run_that_is_named() {
    let folder = Folder::new("choosing_filter");
    for filter in [
        &["--path", "etl/"][..],
        &["--status", "running"],
        &["--label", "a"],
        &["--since", "1h"],
        &["--until", "1h"],
        &["--query", "x"],
        &["--system"],
    ] {
        let args = [&["runs", "cancel", "4821", "--yes"], filter].concat();
        let ran = folder.run(&args);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    }
}

#[test]
fn a_server_that_does_not_know_the_token_says_so_by_its_exit_code() {
    let folder = Folder::new("choosing_denied");
    let (mut server, url) = listening(&folder, &["server", "--port", "0"]);
    server.says("First token");
    let admin = server.says("noetl_").trim().to_owned();
    let ask = |token: &str, args: &[&str]| -> Ran {
        let mut command = at_home(&folder, args);
        command
            .env("NOETL_SERVER_URL", &url)
            .env("NOETL_TOKEN", token);
        command.output().unwrap().into()
    };
    let wrong = format!("noetl_wrong_{}", "0".repeat(64));
    let denied = ask(&wrong, &["runs", "list"]);
    assert_eq!(denied.code, 6, "{}", denied.shown());
    let found = ask(&wrong, &["doctor"]);
    assert_eq!(found.code, 1, "{}", found.shown());
    assert!(found.out.contains("✗ identity"), "{}", found.out);
    let found = ask(&admin, &["doctor"]);
    assert!(found.out.contains("✓ identity"), "{}", found.out);
    // A profile is shown the token that it names, and no other.
    let add = ["profile", "add", "here", "--server", &url];
    assert_eq!(ask(&admin, &add).code, 0);
    let bare = ask(&admin, &["runs", "list", "--profile", "here"]);
    assert_eq!(bare.code, 6, "{}", bare.shown());
    let add = [&add[..], &["--force", "--token-env", "NOETL_TOKEN"]].concat();
    assert_eq!(ask(&admin, &add).code, 0);
    let named = ask(&admin, &["runs", "list", "--profile", "here"]);
    assert_eq!(named.code, 0, "{}", named.shown());
    // A part of an id is enough, where it fits no other.
    let create = [
        "token",
        "create",
        "ci",
        "--scope",
        "exec:read",
        "-o",
        "json",
    ];
    let made: Value = serde_json::from_str(&ask(&admin, &create).out).unwrap();
    assert!(
        made["token"].as_str().unwrap().starts_with("noetl_"),
        "{made}"
    );
    let id = made["id"].as_str().unwrap();
    let revoked = ask(&admin, &["token", "revoke", &id[6..], "--yes"]);
    assert_eq!(
        revoked.out,
        format!("{id} revoked\n"),
        "{}",
        revoked.shown()
    );
    let none = ask(&admin, &["token", "revoke", "none", "--yes"]);
    assert_eq!(none.code, 3, "{}", none.shown());
}

/// Makes so many rows of the outbox dead; gives their ids.
fn dead_rows(house: &House, count: usize) -> Vec<String> {
    let settings = ClientSettings {
        token: Some(BearerToken::new(SECRET.to_owned())),
        ..ClientSettings::default()
    };
    let client = Client::new(house.url(), settings).unwrap();
    let threads = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    threads.block_on(async {
        let some = OutboxClaimRequest {
            limit: Some(i64::try_from(count).unwrap()),
        };
        let claimed = client.claim_outbox(&some).await.unwrap();
        let mut dead = Vec::new();
        for row in claimed.rows {
            let failed = MarkFailedRequest {
                outbox_id: row.outbox_id,
                error: "no route".into(),
                attempts: None,
                max_delay_seconds: None,
            };
            assert!(client.mark_failed(&failed).await.unwrap().marked);
            dead.push(row.outbox_id.to_string());
        }
        dead
    })
}

#[test]
fn dead_rows_are_looked_at_before_anything_becomes_of_them() {
    let env = [TOKEN, ("NOETL_OUTBOX_MAX_ATTEMPTS", "1")];
    let house = House::with("choosing_dead", &env);
    house.folder.write("clean.yaml", CLEAN);
    house.get(&["run", "clean.yaml", "-q"]);
    let dead = dead_rows(&house, 3);
    let [first, second, third] = dead.as_slice() else {
        panic!("{dead:?}")
    };
    let listed = lines(&house.get(&["outbox", "dead", "-o", "jsonl"]));
    assert_eq!(listed.len(), 3, "one line for each row");
    assert_eq!(listed[0]["outbox_id"].to_string(), *first);
    // Only those that are dead are counted, and the question says where it happens.
    let args = ["outbox", "discard", first, second, "7"];
    let (exit, out, err) = house.on_terminal(&args, "no\n");
    assert_eq!((exit, &*out), (Exit::Failed, ""), "{err}");
    assert!(err.contains("no route"), "{err}");
    let question = format!(
        "Give up 2 dead rows for good, told to nobody, at {}?",
        house.url()
    );
    assert!(err.contains(&question), "{err}");
    let dry = house.get(&["outbox", "discard", first, "7", "--dry-run", "-o", "jsonl"]);
    assert_eq!(lines(&dry).len(), 1, "{dry}");
    let (exit, out, err) = house.on_terminal(&args, "yes\n");
    assert_eq!(exit, Exit::Ok, "{err}");
    assert_eq!(out, "2 rows given up\n");
    assert!(err.contains("1 of 3 rows were not dead"), "{err}");
    let replayed = house.get(&["outbox", "replay", third, "--yes", "-o", "json"]);
    assert_eq!(replayed, "{\n  \"changed\": 1\n}\n");
    let none = house.ask(&["outbox", "replay", first]);
    assert_eq!(none.code, 3, "{}", none.shown());
}

#[test]
fn what_is_done_is_told_to_programs_too() {
    let house = House::new("choosing_forms");
    house.get(&["catalog", "register", "two.yaml", "waits.yaml"]);
    let args = ["exec", "demo/two", "--set", "who=Ada", "--wait", "-q"];
    let line = house.get(&[&args[..], &["-o", "jsonl"]].concat());
    assert_eq!(line, "{\"who\":\"Ada\"}\n");
    let changed = house.folder.read("two.yaml").replace("world", "moon");
    house.folder.write("two.yaml", changed);
    let differs = house.ask(&["catalog", "diff", "demo/two", "two.yaml", "-o", "json"]);
    assert_eq!(differs.code, 1);
    let differs: Value = serde_json::from_str(&differs.out).unwrap();
    assert_eq!(differs["differs"], true);
    let diff = differs["diff"].as_str().unwrap();
    assert!(
        diff.contains("\n-workload: { who: world }\n+workload"),
        "{diff}"
    );
    let run = house.get(&["exec", "demo/waits"]).trim().to_owned();
    house.until_it_waits(&run, "approval");
    for (verb, status) in [("pause", "PAUSED"), ("resume", "RUNNING")] {
        let told = house.get(&["runs", verb, &run, "-o", "jsonl"]);
        let wanted = format!("{{\"execution_id\":\"{run}\",\"status\":\"{status}\"}}\n");
        assert_eq!(told, wanted);
    }
    let decided = house.get(&["runs", "approve", &run, "-o", "jsonl"]);
    assert_eq!(lines(&decided)[0]["decision"], "approve", "{decided}");
    house.until_it_waits(&run, "signal");
    let sent = house.get(&["runs", "signal", &run, "other", "-o", "jsonl"]);
    assert_eq!(lines(&sent)[0]["delivered"], false, "{sent}");
    let ended = house.get(&["runs", "cancel", &run, "--yes", "-o", "json"]);
    let ended: Value = serde_json::from_str(&ended).unwrap();
    assert_eq!(ended[0]["status"], "CANCELLED", "{ended}");
    let rotated = house.get(&["secret", "rotate", "-o", "json"]);
    assert!(rotated.contains("\"rewrapped\": 0"), "{rotated}");
    let settings = house.get(&["config", "show", "-o", "jsonl"]);
    let settings = lines(&settings);
    let port = settings.iter().find(|row| row["name"] == "NOETL_PORT");
    assert_eq!(port.unwrap()["is_secret"], false);
}

/// An operator whose environment names two servers: the one to order, and the one to ask otherwise.
fn operator(order: &str, ask: &str, folder: &Folder, args: &[&str]) -> Ran {
    let mut command = at_home(folder, args);
    command
        .env(TOKEN.0, TOKEN.1)
        .env("NOETL_INTERNAL_URL", order)
        .env("NOETL_SERVER_URL", ask);
    command.output().unwrap().into()
}

const NOBODY: &str = "http://127.0.0.1:1";

#[test]
fn a_stream_is_shown_by_who_would_publish_it_again() {
    let house = House::with("choosing_stream", &[TOKEN]);
    let dry = ["stream", "rebuild", "--dry-run", "-o", "json"];
    let told = operator(house.url(), NOBODY, &house.folder, &dry);
    assert_eq!(told.code, 0, "{}", told.shown());
    assert!(told.out.contains("\"state\": \"off\""), "{}", told.out);
    for args in [&dry[..], &["stream", "rebuild"]] {
        let away = operator(NOBODY, house.url(), &house.folder, args);
        assert_eq!((away.code, &*away.out), (5, ""), "{}", away.shown());
        assert!(away.err.contains(NOBODY), "{}", away.err);
    }
}

#[test]
fn the_run_of_an_audit_is_one_of_the_server_that_is_asked() {
    let house = House::with("choosing_audit", &[TOKEN]);
    house.folder.write("clean.yaml", CLEAN);
    house.get(&["run", "clean.yaml", "-q"]);
    let audit = ["secret", "audit", "--run", "last"];
    assert_eq!(house.get(&audit), "");
    // There are runs here too, and they are none of that server.
    let other = House::new("choosing_audit_other");
    other.folder.write("clean.yaml", CLEAN);
    other.get(&["run", "clean.yaml", "-q"]);
    let part = operator(house.url(), other.url(), &house.folder, &audit);
    assert_eq!((part.code, &*part.out), (2, ""), "{}", part.shown());
    assert!(part.err.contains("give its whole id"), "{}", part.err);
    let whole = ["secret", "audit", "--run", "308400000000000001"];
    let whole = operator(house.url(), other.url(), &house.folder, &whole);
    assert_eq!(whole.code, 0, "{}", whole.shown());
}
