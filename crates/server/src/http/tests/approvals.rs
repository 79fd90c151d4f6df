//! What waits for people, page by page.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::json;

use super::backends::{Shelter, on_every_store};
use super::tokens::token_of;
use super::{Reply, is_ok};
use crate::http::settings::HttpSettings;

const ASKS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asks, path: demo/asks }
workflow:
  - step: ask
    tool: { kind: approval, title: why }
";

fn runs(reply: &Reply) -> Vec<String> {
    assert!(is_ok(reply), "{}", reply.text);
    let approvals = reply.at("/approvals");
    let runs = approvals.as_array().unwrap().iter();
    runs.map(|open| open["execution_id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn waits_come_in_pages_and_by_run() {
    on_every_store(in_pages).await;
}

async fn in_pages(shelter: &Shelter) {
    let house = shelter.house(HttpSettings::default(), |_| ()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(house.started_with(ASKS, "demo/asks").await);
    }
    all.sort_unstable();
    let whole = house.get("/api/approvals").await;
    assert_eq!(runs(&whole), all);
    assert_eq!(whole.json().get("next_cursor"), None);
    // One by one, and whoever asks for as many as there are is told that nothing follows.
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let cursor_of = |cursor: &String| format!("&cursor={cursor}");
        let behind = cursor.as_ref().map(cursor_of).unwrap_or_default();
        let page = house.get(&format!("/api/approvals?limit=1{behind}")).await;
        assert_eq!(runs(&page).len(), 1);
        seen.extend(runs(&page));
        match page.json().get("next_cursor").cloned() {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => break,
        }
        // The headers lead on too, as those of the list of runs do.
        assert_eq!(page.header("x-next-cursor"), cursor.as_deref());
        let next = cursor.as_deref().unwrap_or_default();
        let link = format!("</api/approvals?limit=1&cursor={next}>; rel=\"next\"");
        assert_eq!(page.header("link"), Some(&*link));
    }
    assert_eq!(seen, all);
    let exact = house.get("/api/approvals?limit=3").await;
    assert_eq!(exact.json().get("next_cursor"), None);
    for id in &all {
        let path = format!("/api/approvals?execution_id={id}");
        let one = house.get(&path).await;
        assert_eq!(runs(&one), [id.as_str()]);
        assert_eq!(one.json().get("next_cursor"), None);
    }
    // A cursor belongs to its list, and is nothing that one could make up.
    let cursor = house.get("/api/approvals?limit=1").await;
    let cursor = cursor.text_at("/next_cursor");
    let of_run = format!("execution_id={}&cursor={cursor}", all[2]);
    let made_up = format!("cursor={}.1.0", all[0]);
    for (query, code) in [
        (&*of_run, ErrorCode::BadQuery),
        (&*made_up, ErrorCode::BadQuery),
        ("cursor=x", ErrorCode::BadQuery),
        ("limit=0", ErrorCode::OutOfRange),
        ("stauts=open", ErrorCode::BadQuery),
        ("execution_id=7000000000000000000", ErrorCode::NotFound),
    ] {
        let refused = house.get(&format!("/api/approvals?{query}")).await;
        refused.is_problem(code);
    }
    // Those of another tenant are as good as none.
    let other = token_of(&house.runtime, "acme", &[Scope::ExecRead]).await;
    let list = house.call(&other, Method::GET, "/api/approvals", json!({}));
    assert_eq!(runs(&list.await), [] as [&str; 0]);
    let path = format!("/api/approvals?execution_id={}", all[0]);
    let foreign = house.call(&other, Method::GET, &path, json!({})).await;
    foreign.is_problem(ErrorCode::NotFound);
}
