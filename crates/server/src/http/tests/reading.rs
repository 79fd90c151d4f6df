//! Executions as readers see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use noetl_store::faulty::{Fault, FaultyStore, Method as StoreMethod};
use noetl_store::postgres::PostgresOptions;
use noetl_store::{MemoryStore, PostgresStore};
use noetl_testkit::postgres::Database;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, house, is_ok};
use crate::clock::{Clock as _, SystemClock};

#[tokio::test]
async fn a_run_from_its_start_to_its_end() {
    let house = house().await;
    let execution_id = house.started().await;
    let status = house
        .get(&format!("/api/executions/{execution_id}/status"))
        .await;
    assert_eq!(status.text_at("/status"), "RUNNING", "{}", status.text);
    assert_eq!(status.at("/completed"), false);
    assert_eq!(
        status.at("/progress"),
        json!({ "total_steps": 2, "completed_steps": 0, "running_steps": 1, "failed_steps": 0 })
    );
    for _ in 0..2 {
        let command = house.leased().await;
        house.finish(&command, json!({ "ok": true })).await;
    }
    let status = house
        .get(&format!("/api/executions/{execution_id}/status"))
        .await;
    assert_eq!(status.text_at("/execution_id"), execution_id);
    assert_eq!(status.text_at("/status"), "COMPLETED");
    assert_eq!(status.at("/completed_steps"), json!(["start", "last"]));
    assert_eq!(status.at("/variables"), json!({ "seen": 1 }));
    assert_eq!(status.at("/completion_inferred"), false);
    assert_eq!(
        status.at("/result"),
        json!({ "ok": true }),
        "{}",
        status.text
    );

    let detail = house.get(&format!("/api/executions/{execution_id}")).await;
    assert_eq!(detail.at("/workload"), json!({ "greeting": "hello" }));
    assert_eq!(detail.at("/result"), json!({ "ok": true }));
    assert_eq!(
        (detail.at("/progress"), detail.at("/version")),
        (json!(100), json!(1))
    );
    assert_eq!(detail.text_at("/path"), "demo/two");
    assert_eq!(detail.text_at("/events/0/event_type"), "playbook.started");
    for id in [
        "/execution_id",
        "/catalog_id",
        "/events/0/event_id",
        "/events/0/execution_id",
    ] {
        assert!(detail.at(id).is_string(), "{id}");
    }
    let total = detail.at("/pagination/total_events").as_u64().unwrap();
    assert_eq!(detail.at("/event_count"), total);
    assert_eq!(detail.at("/events").as_array().unwrap().len() as u64, total);
}

fn seqs(reply: &Reply) -> Vec<i64> {
    let events = reply.at("/events");
    let events = events.as_array().unwrap().iter();
    events.map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn a_log_is_paged_from_either_end() {
    let house = house().await;
    let execution_id = house.finished().await;
    let base = format!("/api/executions/{execution_id}/events");
    let all = seqs(&house.get(&format!("{base}?limit=500")).await);
    assert_eq!(all.first(), Some(&1));
    assert!(all.len() > 9 && all.is_sorted());
    for order in ["asc", "desc"] {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = house
                .get(&format!("{base}?order={order}&limit=4{cursor}"))
                .await;
            let seqs = seqs(&page);
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
    let middle = house.get(&format!("{base}?after_seq=3&before_seq=7")).await;
    assert_eq!(seqs(&middle), [4, 5, 6]);
    let typed = house.get(&format!("{base}?type=step.enter")).await;
    assert_eq!(seqs(&typed).len(), 2);
    let of_step = house
        .get(&format!("{base}?step=last&type=step.enter"))
        .await;
    assert_eq!(of_step.text_at("/events/0/node_name"), "last");
    assert_eq!(seqs(&of_step).len(), 1);
    assert!(seqs(&house.get(&format!("{base}?after_seq=100000")).await).is_empty());
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
        let reply = house.get(&format!("{base}?{wrong}")).await;
        reply.is_problem(code);
    }
}

#[tokio::test]
async fn a_page_of_a_run_shows_a_page_of_its_log() {
    let house = house().await;
    let execution_id = house.finished().await;
    let base = format!("/api/executions/{execution_id}");
    let all = house.get(&base).await;
    let total = seqs(&all).len();
    let second = house
        .get(&format!("{base}?page=2&page_size=5&unknown=1"))
        .await;
    assert_eq!(seqs(&second), [6, 7, 8, 9, 10]);
    assert_eq!(
        second.at("/pagination"),
        json!({ "page": 2, "page_size": 5, "total_events": total,
            "total_pages": total.div_ceil(5), "has_next": total > 10, "has_prev": true })
    );
    let beyond = house.get(&format!("{base}?page=4294967295")).await;
    assert_eq!(
        (seqs(&beyond).len(), beyond.at("/pagination/has_next")),
        (0, json!(false))
    );
    let typed = house
        .get(&format!("{base}?event_type=step.exit&page_size=1&page=2"))
        .await;
    assert_eq!(typed.at("/pagination/total_events"), 2);
    assert_eq!(typed.text_at("/events/0/node_name"), "last");
    let third = all.text_at("/events/2/event_id");
    let since = house.get(&format!("{base}?since_event_id={third}")).await;
    assert_eq!(seqs(&since)[0], 4);
    assert_eq!(since.at("/pagination/total_events"), total - 3);
    house
        .get(&format!("{base}?page=0"))
        .await
        .is_problem(ErrorCode::OutOfRange);
    house
        .get(&format!("{base}?page_size=501"))
        .await
        .is_problem(ErrorCode::OutOfRange);
}

fn ids(reply: &Reply) -> Vec<String> {
    let lines = reply.json();
    let lines = lines.as_array().unwrap().iter();
    lines
        .map(|line| line["execution_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Starts so many executions; the newest comes first.
async fn many(house: &House, count: usize) -> Vec<String> {
    let mut started = Vec::new();
    for _ in 0..count {
        started.insert(0, house.started().await);
    }
    started
}

#[tokio::test]
async fn the_list_is_paged_by_cursor_and_by_offset() {
    let house = house().await;
    let all = many(&house, 7).await;
    assert_eq!(ids(&house.get("/api/executions").await), all);
    let mut found = Vec::new();
    let mut path = "/api/executions?limit=3&path=demo".to_owned();
    loop {
        let page = house.get(&path).await;
        assert!(is_ok(&page), "{}", page.text);
        found.extend(ids(&page));
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
    let skipped = house.get("/api/executions?offset=5&limit=500").await;
    assert_eq!(ids(&skipped), all[5..]);
    let reply = house.get("/api/executions?offset=10001").await;
    reply.is_problem(ErrorCode::OutOfRange);
    // A cursor belongs to its filter.
    let page = house.get("/api/executions?limit=3").await;
    let cursor = page.header("x-next-cursor").unwrap();
    let reply = house
        .get(&format!("/api/executions?status=FAILED&cursor={cursor}"))
        .await;
    reply.is_problem(ErrorCode::BadQuery);
    house
        .get("/api/executions?cursor=x")
        .await
        .is_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn the_list_is_filtered() {
    let house = house().await;
    let all = many(&house, 3).await;
    let cancel = format!("/api/executions/{}/cancel", all[1]);
    house.post(&cancel, json!({ "reason": "test" })).await;
    let first = house.get(&format!("/api/executions/{}", all[0])).await;
    let catalog_id = first.text_at("/catalog_id");
    for (query, found) in [
        ("status=CANCELLED".to_owned(), &all[1..2]),
        ("status=cancelled&path=two".to_owned(), &all[1..2]),
        ("path=mo%2Ft".to_owned(), &all[..]),
        ("path=other".to_owned(), &[]),
        ("status=".to_owned(), &all[..]),
        (format!("catalog_id={catalog_id}"), &all[..]),
        ("catalog_id=7".to_owned(), &[]),
        (format!("parent={}", all[0]), &[]),
        ("unknown=1".to_owned(), &all[..]),
    ] {
        let reply = house.get(&format!("/api/executions?{query}")).await;
        assert!(is_ok(&reply), "{query}: {}", reply.text);
        assert_eq!(ids(&reply), found, "{query}");
    }
    for (wrong, code) in [
        ("status=DONE", ErrorCode::BadQuery),
        ("catalog_id=x", ErrorCode::BadQuery),
        ("parent=x", ErrorCode::BadQuery),
        ("limit=-1", ErrorCode::OutOfRange),
    ] {
        house
            .get(&format!("/api/executions?{wrong}"))
            .await
            .is_problem(code);
    }
}

/// Runs of the platform itself, and runs that another run started, can be left out.
#[tokio::test]
async fn the_list_leaves_out_what_nobody_asked_for() {
    let house = house().await;
    let first = house.started().await;
    let child = json!({ "path": "demo/two", "parent_execution_id": first });
    let child = house.post("/api/execute", child).await;
    let child = child.text_at("/execution_id");
    let content = TWO_STEPS.replace("demo/two", "system/two");
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let post = async |path: &str, body| house.call(&admin, Method::POST, path, body).await;
    post("/api/catalog/register", json!({ "content": content })).await;
    let own = post("/api/execute", json!({ "path": "system/two" })).await;
    let own = own.text_at("/execution_id");
    let (first, child, own) = (&*first, &*child, &*own);
    for (query, found) in [
        ("", &[own, child, first][..]),
        ("system=false", &[child, first]),
        ("system=true", &[own]),
        ("roots=true", &[own, first]),
        ("roots=false", &[own, child, first]),
        ("roots=true&system=false&limit=1", &[first]),
    ] {
        let reply = house.get(&format!("/api/executions?{query}")).await;
        assert!(is_ok(&reply), "{query}: {}", reply.text);
        assert_eq!(ids(&reply), found, "{query}");
    }
    // A cursor belongs to these filters too, and a page that is full goes on behind it.
    let page = house.get("/api/executions?system=false&limit=1").await;
    let cursor = page.header("x-next-cursor").unwrap();
    let next = format!("/api/executions?system=false&limit=1&cursor={cursor}");
    assert_eq!(ids(&house.get(&next).await), [first]);
    let other = format!("/api/executions?limit=1&cursor={cursor}");
    let refused = house.get(&other).await;
    refused.is_problem(ErrorCode::BadQuery);
    let wrong = house.get("/api/executions?system=perhaps").await;
    wrong.is_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn a_large_result_is_shown_and_resolved() {
    let house = house().await;
    let execution_id = house.started().await;
    let big = json!({ "rows": vec!["x".repeat(1000); 100] });
    let command = house.leased().await;
    house.finish(&command, json!(null)).await;
    let command = house.leased().await;
    house.finish(&command, big.clone()).await;
    let status = house
        .get(&format!("/api/executions/{execution_id}/status"))
        .await;
    assert_eq!(status.at("/result"), big);
    let events = format!("/api/executions/{execution_id}/events?type=call.done&step=last");
    let done = house.get(&events).await;
    let reference = done.text_at("/events/0/result/reference/ref");
    let reply = house
        .get(&format!("/api/result/resolve?ref={reference}"))
        .await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json(), big);
    let (head, _) = reference.rsplit_once('/').unwrap();
    for (wrong, code) in [
        (String::new(), ErrorCode::BadQuery),
        ("?ref=x".to_owned(), ErrorCode::BadQuery),
        (format!("?ref={head}/7"), ErrorCode::NotFound),
        (
            "?ref=noetl://execution/7/result/a/8".to_owned(),
            ErrorCode::NotFound,
        ),
        (
            format!("?ref={}", reference.replace("/last/", "/first/")),
            ErrorCode::NotFound,
        ),
    ] {
        let reply = house.get(&format!("/api/result/resolve{wrong}")).await;
        reply.is_problem(code);
    }
}

/// What workers could not raise is told to those who are known, and to no stranger.
#[tokio::test]
async fn walls_that_do_not_stand_are_told() {
    let house = house().await;
    let worker = |name: &str, missing: &[&str]| {
        json!({
            "name": name, "component_type": "worker_pool", "runtime": "rust", "status": "ready",
            "capabilities": { "sandbox": { "mode": "best_effort", "missing": missing } },
        })
    };
    let long = "x".repeat(301);
    for (name, missing) in [
        ("w1", &["seccomp (refused)"][..]),
        (
            "w2",
            &["seccomp (refused)", "a pid namespace (refused)", &long],
        ),
        ("w3", &[]),
    ] {
        let known = house
            .post("/api/worker/pool/register", worker(name, missing))
            .await;
        assert_eq!(known.status, 200, "{}", known.text);
    }
    let ready = house.get("/readyz").await;
    let told = json!(["a pid namespace (refused)", "seccomp (refused)"]);
    assert_eq!((ready.status, ready.at("/walls")), (200, told));
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 1));
    let probe = super::request(Method::GET, "/readyz", "");
    let ready = house.send_from(stranger, probe).await;
    assert_eq!(ready.json().get("walls"), None::<&Value>);
}

#[tokio::test]
async fn a_store_that_fails_is_told_without_its_words() {
    let broken = |method| match method {
        StoreMethod::Execution | StoreMethod::Executions => Fault::Before,
        _ => Fault::None,
    };
    let store = FaultyStore::new(MemoryStore::new(), Box::new(broken));
    let house = super::house_on(Arc::new(store)).await;
    let reply = house.get("/api/executions").await;
    reply.is_problem(ErrorCode::StoreUnavailable);
    assert!(!reply.text.contains("on purpose"), "{}", reply.text);
    let ready = house.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.header("retry-after").is_some());
    assert_eq!(
        ready.at("/checks"),
        json!({
            "machine_id": "ok", "migrations": "ok", "partitions": "ok", "store": "failed",
        })
    );
    assert!(ready.at("/reasons/store").is_string());
    assert!(!ready.text.contains("on purpose"), "{}", ready.text);
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 1));
    let probe = super::request(Method::GET, "/readyz", "");
    let ready = house.send_from(stranger, probe).await;
    assert_eq!(ready.json().get("reasons"), None::<&Value>);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_too_busy_to_list_its_tables_works_all_the_same() {
    for fault in [Fault::Never, Fault::Saturated] {
        let is_busy = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&is_busy);
        let plan = move |method| match method {
            StoreMethod::Tables if flag.load(Ordering::SeqCst) => fault,
            _ => Fault::None,
        };
        let store = FaultyStore::new(MemoryStore::new(), Box::new(plan));
        let house = super::house_on(Arc::new(store)).await;
        let look = async |is_busy_now: bool| {
            is_busy.store(is_busy_now, Ordering::SeqCst);
            let ready = house.get("/readyz").await;
            (ready.status, ready.text_at("/checks/migrations"))
        };
        assert_eq!(look(true).await, (200, "degraded".to_owned()));
        assert_eq!(look(false).await, (200, "ok".to_owned()));
        // Once all were there, nobody asks again.
        assert_eq!(look(true).await, (200, "ok".to_owned()));
    }
}

#[tokio::test]
async fn a_store_without_a_table_does_not_work() {
    let database = Database::new().unwrap();
    let options = PostgresOptions::new(database.config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.unwrap();
    let house = super::house_on(Arc::new(store)).await;
    database.run("DROP TABLE noetl.outbox CASCADE").unwrap();
    let ready = house.get("/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert_eq!(ready.text_at("/checks/migrations"), "failed");
    let reason = ready.text_at("/reasons/migrations");
    assert_eq!(reason, "tables are missing: outbox");
}

#[tokio::test]
async fn reads_of_a_run_say_how_far_its_log_was() {
    let house = house().await;
    let id = house.finished().await;
    let run = format!("/api/executions/{id}");
    let end = house.get(&run).await.at("/event_count").to_string();
    for path in ["", "/status", "/events?limit=1", "/explain"] {
        let read = house.get(&format!("{run}{path}")).await;
        assert_eq!(read.header("x-seq"), Some(&*end), "{path}");
    }
    let then = house.get(&format!("{run}/explain?at=2")).await;
    assert_eq!(then.header("x-seq"), Some("2"), "{}", then.text);
    let none = house.get("/api/executions/7/status").await;
    assert_eq!(none.header("x-seq"), None);
}
