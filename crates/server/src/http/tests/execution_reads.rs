//! Reads of executions, their logs and lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use noetl_store::postgres::PostgresOptions;
use noetl_store::{PostgresStore, SqliteStore};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod, migrated_database};
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, is_ok, start_server};
use crate::clock::{Clock as _, SystemClock};

#[tokio::test]
async fn reads_run_from_start_to_end() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let status = server.get(&format!("/api/executions/{execution_id}/status")).await;
    assert_eq!(status.text_at("/status"), "RUNNING", "{}", status.text);
    assert_eq!(status.json_at("/completed"), false);
    assert_eq!(
        status.json_at("/progress"),
        json!({ "total_steps": 2, "completed_steps": 0, "running_steps": 1, "failed_steps": 0 })
    );
    for _ in 0..2 {
        let command = server.lease_command().await;
        server.complete_command(&command, json!({ "ok": true })).await;
    }
    let status = server.get(&format!("/api/executions/{execution_id}/status")).await;
    assert_eq!(status.text_at("/execution_id"), execution_id);
    assert_eq!(status.text_at("/status"), "COMPLETED");
    assert_eq!(status.json_at("/completed_steps"), json!(["start", "last"]));
    assert_eq!(status.json_at("/variables"), json!({ "seen": 1 }));
    assert_eq!(status.json_at("/completion_inferred"), false);
    assert_eq!(status.json_at("/result"), json!({ "ok": true }), "{}", status.text);

    let detail = server.get(&format!("/api/executions/{execution_id}")).await;
    assert_eq!(detail.json_at("/workload"), json!({ "greeting": "hello" }));
    assert_eq!(detail.json_at("/result"), json!({ "ok": true }));
    assert_eq!((detail.json_at("/progress"), detail.json_at("/version")), (json!(100), json!(1)));
    assert_eq!(detail.text_at("/path"), "demo/two");
    assert_eq!(detail.text_at("/events/0/event_type"), "playbook.started");
    for id in ["/execution_id", "/catalog_id", "/events/0/event_id", "/events/0/execution_id"] {
        assert!(detail.json_at(id).is_string(), "{id}");
    }
    let total = detail.json_at("/pagination/total_events").as_u64().unwrap();
    assert_eq!(detail.json_at("/event_count"), total);
    assert_eq!(detail.json_at("/events").as_array().unwrap().len() as u64, total);
}

fn event_seqs(reply: &TestResponse) -> Vec<i64> {
    let events = reply.json_at("/events");
    let events = events.as_array().unwrap().iter();
    events.map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn log_is_paged_in_both_orders() {
    let server = start_server().await;
    let execution_id = server.run_two_steps().await;
    let base = format!("/api/executions/{execution_id}/events");
    let all = event_seqs(&server.get(&format!("{base}?limit=500")).await);
    assert_eq!(all.first(), Some(&1));
    assert!(all.len() > 9 && all.is_sorted());
    for order in ["asc", "desc"] {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = server.get(&format!("{base}?order={order}&limit=4{cursor}")).await;
            let seqs = event_seqs(&page);
            assert!(!seqs.is_empty() && seqs.len() <= 4);
            found.extend(seqs);
            match page.json().get("next_cursor") {
                Some(next) => cursor = format!("&cursor={}", next.as_str().unwrap()),
                None => break,
            }
        }
        if order == "desc" {
            found.reverse();
        }
        assert_eq!(found, all, "{order}");
    }
    let middle = server.get(&format!("{base}?after_seq=3&before_seq=7")).await;
    assert_eq!(event_seqs(&middle), [4, 5, 6]);
    let filtered = server.get(&format!("{base}?type=step.enter")).await;
    assert_eq!(event_seqs(&filtered).len(), 2);
    let step_events = server.get(&format!("{base}?step=last&type=step.enter")).await;
    assert_eq!(step_events.text_at("/events/0/node_name"), "last");
    assert_eq!(event_seqs(&step_events).len(), 1);
    assert!(event_seqs(&server.get(&format!("{base}?after_seq=100000")).await).is_empty());
    for (wrong, code) in [
        ("limit=0", ErrorCode::OutOfRange),
        ("limit=501", ErrorCode::OutOfRange),
        ("limit=x", ErrorCode::BadQuery),
        ("order=up", ErrorCode::BadQuery),
        ("after_seq=-1", ErrorCode::OutOfRange),
        ("before_seq=0", ErrorCode::BadQuery),
        ("cursor=x", ErrorCode::BadQuery),
        ("limit=1&limit=2", ErrorCode::BadQuery),
        ("lmit=1", ErrorCode::BadQuery),
    ] {
        let reply = server.get(&format!("{base}?{wrong}")).await;
        reply.assert_problem(code);
    }
}

#[tokio::test]
async fn execution_detail_pages_its_log() {
    let server = start_server().await;
    let execution_id = server.run_two_steps().await;
    let base = format!("/api/executions/{execution_id}");
    let all = server.get(&base).await;
    let total = event_seqs(&all).len();
    let second = server.get(&format!("{base}?page=2&page_size=5&unknown=1")).await;
    assert_eq!(event_seqs(&second), [6, 7, 8, 9, 10]);
    assert_eq!(
        second.json_at("/pagination"),
        json!({ "page": 2, "page_size": 5, "total_events": total,
            "total_pages": total.div_ceil(5), "has_next": total > 10, "has_prev": true })
    );
    let beyond = server.get(&format!("{base}?page=4294967295")).await;
    assert_eq!(
        (event_seqs(&beyond).len(), beyond.json_at("/pagination/has_next")),
        (0, json!(false))
    );
    let filtered = server.get(&format!("{base}?event_type=step.exit&page_size=1&page=2")).await;
    assert_eq!(filtered.json_at("/pagination/total_events"), 2);
    assert_eq!(filtered.text_at("/events/0/node_name"), "last");
    let third = all.text_at("/events/2/event_id");
    let since = server.get(&format!("{base}?since_event_id={third}")).await;
    assert_eq!(event_seqs(&since)[0], 4);
    assert_eq!(since.json_at("/pagination/total_events"), total - 3);
    server.get(&format!("{base}?page=0")).await.assert_problem(ErrorCode::OutOfRange);
    server.get(&format!("{base}?page_size=501")).await.assert_problem(ErrorCode::OutOfRange);
}

/// Classic clients request the detail without paging parameters and show what they get.
#[tokio::test]
async fn execution_detail_without_paging_has_newest_events() {
    let server = start_server().await;
    let steps: String = (1..=40)
        .map(|number| {
            let next = if number < 40 { format!("next: s{}", number + 1) } else { String::new() };
            format!("  - step: s{number}\n    tool: {{ kind: noop }}\n    {next}\n")
        })
        .collect();
    let playbook = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: long, path: demo/long }}\nworkflow:\n{steps}"
    );
    let execution_id = server.start_playbook(&playbook, "demo/long").await;
    for _ in 0..40 {
        let command = server.lease_command().await;
        server.complete_command(&command, json!({})).await;
    }
    let detail = server.get(&format!("/api/executions/{execution_id}")).await;
    let total = detail.json_at("/event_count").as_i64().unwrap();
    assert!(total > 200, "{total}");
    assert_eq!(event_seqs(&detail), (total - 99..=total).collect::<Vec<_>>());
    assert_eq!(detail.json_at("/pagination/total_events"), total);
    assert_eq!(detail.json_at("/pagination/has_next"), false);
    assert_eq!(detail.json_at("/pagination/has_prev"), true);
    assert_eq!(detail.json_at("/pagination/page"), detail.json_at("/pagination/total_pages"));
    let first = server.get(&format!("/api/executions/{execution_id}?page=1")).await;
    assert_eq!(event_seqs(&first), (1..=100).collect::<Vec<_>>());
    assert_eq!(first.json_at("/pagination/total_events"), total);
}

#[tokio::test]
async fn execution_detail_lists_children() {
    let server = start_server().await;
    let parent = server.start_two_steps().await;
    let body = json!({ "path": "demo/two", "parent_execution_id": parent });
    let mut children = Vec::new();
    for _ in 0..2 {
        let child = server.post("/api/execute", body.clone()).await;
        children.insert(0, child.text_at("/execution_id"));
    }
    let detail = server.get(&format!("/api/executions/{parent}")).await;
    let listed = detail.json_at("/children");
    let listed = listed.as_array().unwrap().iter();
    let ids: Vec<&str> =
        listed.clone().map(|child| child["execution_id"].as_str().unwrap()).collect();
    assert_eq!(ids, children);
    assert!(
        listed.clone().all(|child| child["path"] == "demo/two" && child["status"] == "RUNNING")
    );
    let child = server.get(&format!("/api/executions/{}", children[0])).await;
    assert_eq!(
        (child.json_at("/children"), child.text_at("/parent_execution_id")),
        (json!([]), parent)
    );
}

fn listed_run_ids(reply: &TestResponse) -> Vec<String> {
    let rows = reply.json();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["execution_id"].as_str().unwrap().to_owned()).collect()
}

/// Starts executions and returns their ids, newest first.
async fn start_runs(server: &TestServer, count: usize) -> Vec<String> {
    let mut started = Vec::new();
    for _ in 0..count {
        started.insert(0, server.start_two_steps().await);
    }
    started
}

#[tokio::test]
async fn run_list_is_paged_by_cursor_and_offset() {
    let server = start_server().await;
    let all = start_runs(&server, 7).await;
    assert_eq!(listed_run_ids(&server.get("/api/executions").await), all);
    let mut found = Vec::new();
    let mut path = "/api/executions?limit=3&path=demo".to_owned();
    loop {
        let page = server.get(&path).await;
        assert!(is_ok(&page), "{}", page.text);
        found.extend(listed_run_ids(&page));
        let Some(link) = page.header("link") else {
            assert_eq!(page.header("x-next-cursor"), None);
            break;
        };
        let next = link.strip_prefix('<').unwrap();
        let next = next.strip_suffix(">; rel=\"next\"").unwrap();
        assert!(next.ends_with(page.header("x-next-cursor").unwrap()));
        next.clone_into(&mut path);
    }
    assert_eq!(found, all);
    let skipped = server.get("/api/executions?offset=5&limit=500").await;
    assert_eq!(listed_run_ids(&skipped), all[5..]);
    let reply = server.get("/api/executions?offset=10001").await;
    reply.assert_problem(ErrorCode::OutOfRange);
    // A cursor is bound to its filter.
    let page = server.get("/api/executions?limit=3").await;
    let cursor = page.header("x-next-cursor").unwrap();
    let reply = server.get(&format!("/api/executions?status=FAILED&cursor={cursor}")).await;
    reply.assert_problem(ErrorCode::BadQuery);
    server.get("/api/executions?cursor=x").await.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn run_list_is_filtered() {
    let server = start_server().await;
    let all = start_runs(&server, 3).await;
    let cancel = format!("/api/executions/{}/cancel", all[1]);
    server.post(&cancel, json!({ "reason": "test" })).await;
    let first = server.get(&format!("/api/executions/{}", all[0])).await;
    let catalog_id = first.text_at("/catalog_id");
    for (query, found) in [
        ("status=CANCELLED".to_owned(), &all[1..2]),
        ("status=cancelled&path=two".to_owned(), &all[1..2]),
        ("path=mo%2Ft".to_owned(), &all[..]),
        ("path=other".to_owned(), &[]),
        (format!("catalog_id={catalog_id}"), &all[..]),
        ("catalog_id=7".to_owned(), &[]),
        (format!("parent={}", all[0]), &[]),
        ("unknown=1".to_owned(), &all[..]),
    ] {
        let reply = server.get(&format!("/api/executions?{query}")).await;
        assert!(is_ok(&reply), "{query}: {}", reply.text);
        assert_eq!(listed_run_ids(&reply), found, "{query}");
    }
    for (wrong, code) in [
        ("status=DONE", ErrorCode::BadQuery),
        ("status=", ErrorCode::BadQuery),
        ("catalog_id=x", ErrorCode::BadQuery),
        ("parent=x", ErrorCode::BadQuery),
        ("limit=-1", ErrorCode::OutOfRange),
    ] {
        server.get(&format!("/api/executions?{wrong}")).await.assert_problem(code);
    }
}

/// Platform runs and child runs can be left out.
#[tokio::test]
async fn run_list_hides_system_and_child_runs() {
    let server = start_server().await;
    let first = server.start_two_steps().await;
    let child = json!({ "path": "demo/two", "parent_execution_id": first });
    let child = server.post("/api/execute", child).await;
    let child = child.text_at("/execution_id");
    let content = TWO_STEPS.replace("demo/two", "system/two");
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let post =
        async |path: &str, body| server.call_with_token(&admin, Method::POST, path, body).await;
    post("/api/catalog/register", json!({ "content": content })).await;
    let system_run = post("/api/execute", json!({ "path": "system/two" })).await;
    let system_run = system_run.text_at("/execution_id");
    let (first, child, system_run) = (&*first, &*child, &*system_run);
    for (query, found) in [
        ("", &[system_run, child, first][..]),
        ("system=false", &[child, first]),
        ("system=true", &[system_run]),
        ("roots=true", &[system_run, first]),
        ("roots=false", &[system_run, child, first]),
        ("roots=true&system=false&limit=1", &[first]),
    ] {
        let reply = server.get(&format!("/api/executions?{query}")).await;
        assert!(is_ok(&reply), "{query}: {}", reply.text);
        assert_eq!(listed_run_ids(&reply), found, "{query}");
    }
    // A cursor is bound to these filters too, and full pages continue after it.
    let page = server.get("/api/executions?system=false&limit=1").await;
    let cursor = page.header("x-next-cursor").unwrap();
    let next = format!("/api/executions?system=false&limit=1&cursor={cursor}");
    assert_eq!(listed_run_ids(&server.get(&next).await), [first]);
    let other = format!("/api/executions?limit=1&cursor={cursor}");
    let refused = server.get(&other).await;
    refused.assert_problem(ErrorCode::BadQuery);
    let wrong = server.get("/api/executions?system=perhaps").await;
    wrong.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn large_result_is_previewed_and_resolved() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let big = json!({ "rows": vec!["x".repeat(1000); 100] });
    let command = server.lease_command().await;
    server.complete_command(&command, json!(null)).await;
    let command = server.lease_command().await;
    server.complete_command(&command, big.clone()).await;
    let status = server.get(&format!("/api/executions/{execution_id}/status")).await;
    assert_eq!(status.json_at("/result"), big);
    let events = format!("/api/executions/{execution_id}/events?type=call.done&step=last");
    let done = server.get(&events).await;
    let reference = done.text_at("/events/0/result/reference/ref");
    let reply = server.get(&format!("/api/result/resolve?ref={reference}")).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json(), big);
    let (head, _) = reference.rsplit_once('/').unwrap();
    for (wrong, code) in [
        (String::new(), ErrorCode::BadQuery),
        ("?ref=x".to_owned(), ErrorCode::BadQuery),
        (format!("?ref={head}/7"), ErrorCode::NotFound),
        ("?ref=noetl://execution/7/result/a/8".to_owned(), ErrorCode::NotFound),
        (format!("?ref={}", reference.replace("/last/", "/first/")), ErrorCode::NotFound),
    ] {
        let reply = server.get(&format!("/api/result/resolve{wrong}")).await;
        reply.assert_problem(code);
    }
}

/// Inactive sandbox layers of workers are reported only to authenticated callers.
#[tokio::test]
async fn reports_inactive_sandbox_layers() {
    let server = start_server().await;
    let worker = |name: &str, missing: &[&str]| {
        json!({
            "name": name, "component_type": "worker_pool", "runtime": "rust", "status": "ready",
            "capabilities": { "sandbox": { "mode": "best_effort", "missing": missing } },
        })
    };
    let long = "x".repeat(301);
    for (name, missing) in [
        ("w1", &["seccomp (refused)"][..]),
        ("w2", &["seccomp (refused)", "a pid namespace (refused)", &long]),
        ("w3", &[]),
    ] {
        let registered = server.post("/api/worker/pool/register", worker(name, missing)).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
    }
    let ready = server.get("/readyz").await;
    let expected = json!(["a pid namespace (refused)", "seccomp (refused)"]);
    assert_eq!((ready.status, ready.json_at("/missing_protections")), (200, expected));
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 1));
    let probe = super::build_request(Method::GET, "/readyz", "");
    let ready = server.send_from(stranger, probe).await;
    assert_eq!(ready.json().get("missing_protections"), None::<&Value>);
}

#[tokio::test]
async fn store_failure_is_reported_without_details() {
    let broken = |method| match method {
        StoreMethod::FindExecution | StoreMethod::ListExecutions => Fault::FailBefore,
        _ => Fault::None,
    };
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(broken));
    let server = super::start_server_on(Arc::new(store)).await;
    let reply = server.get("/api/executions").await;
    reply.assert_problem(ErrorCode::StoreUnavailable);
    assert!(!reply.text.contains("on purpose"), "{}", reply.text);
    let ready = server.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.header("retry-after").is_some());
    assert_eq!(
        ready.json_at("/checks"),
        json!({
            "clock": "ok", "machine_id": "ok", "migrations": "ok", "partitions": "ok",
            "store": "failed",
        })
    );
    assert!(ready.json_at("/reasons/store").is_string());
    assert!(!ready.text.contains("on purpose"), "{}", ready.text);
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 1));
    let probe = super::build_request(Method::GET, "/readyz", "");
    let ready = server.send_from(stranger, probe).await;
    assert_eq!(ready.json().get("reasons"), None::<&Value>);
}

#[tokio::test(start_paused = true)]
async fn busy_store_without_table_list_is_ready() {
    for fault in [Fault::Hang, Fault::Saturated] {
        let is_busy = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&is_busy);
        let plan = move |method| match method {
            StoreMethod::CheckTables if flag.load(Ordering::SeqCst) => fault,
            _ => Fault::None,
        };
        let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan));
        let server = super::start_server_on(Arc::new(store)).await;
        let check_migrations = async |is_busy_now: bool| {
            is_busy.store(is_busy_now, Ordering::SeqCst);
            let ready = server.get("/readyz").await;
            (ready.status, ready.text_at("/checks/migrations"))
        };
        assert_eq!(check_migrations(true).await, (200, "degraded".to_owned()));
        assert_eq!(check_migrations(false).await, (200, "ok".to_owned()));
        // Once all tables were found, they are not queried again.
        assert_eq!(check_migrations(true).await, (200, "ok".to_owned()));
    }
}

#[tokio::test]
async fn missing_table_makes_server_unready() {
    let now = SystemClock.now();
    let database = migrated_database(now).unwrap();
    let options = PostgresOptions::new(database.connection_config(), now);
    let store = PostgresStore::open(&options).await.unwrap();
    let server = super::start_server_on(Arc::new(store)).await;
    database.run_statement("DROP TABLE noetl.outbox CASCADE").unwrap();
    let ready = server.get("/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert_eq!(ready.text_at("/checks/migrations"), "failed");
    let reason = ready.text_at("/reasons/migrations");
    assert_eq!(reason, "tables are missing: outbox");
}

#[tokio::test]
async fn run_reads_report_log_version() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let run = format!("/api/executions/{id}");
    let end = server.get(&run).await.json_at("/event_count").to_string();
    for path in ["", "/status", "/events?limit=1", "/explain"] {
        let read = server.get(&format!("{run}{path}")).await;
        assert_eq!(read.header("x-seq"), Some(&*end), "{path}");
    }
    let past = server.get(&format!("{run}/explain?at=2")).await;
    assert_eq!(past.header("x-seq"), Some("2"), "{}", past.text);
    let none = server.get("/api/executions/7/status").await;
    assert_eq!(none.header("x-seq"), None);
}
