//! Open approvals, in pages.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::json;

use super::backends::{StoreFixture, on_every_store};
use super::tokens::create_token;
use super::{TestResponse, is_ok};
use crate::http::settings::HttpSettings;

const APPROVAL_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asks, path: demo/asks }
workflow:
  - step: ask
    tool: { kind: approval, title: why }
";

fn waiting_runs(reply: &TestResponse) -> Vec<String> {
    assert!(is_ok(reply), "{}", reply.text);
    let approvals = reply.json_at("/approvals");
    let runs = approvals.as_array().unwrap().iter();
    runs.map(|approval| approval["execution_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_waits_in_pages_and_by_run() {
    on_every_store(check_wait_pages).await;
}

async fn check_wait_pages(fixture: &StoreFixture) {
    let server = fixture.start_server(HttpSettings::default(), |_| ()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(server.start_playbook(APPROVAL_PLAYBOOK, "demo/asks").await);
    }
    all.sort_unstable();
    let whole = server.get("/api/approvals").await;
    assert_eq!(waiting_runs(&whole), all);
    assert_eq!(whole.json().get("next_cursor"), None);
    // One by one. The last page has no next cursor, even if it is full.
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let format_param = |cursor: &String| format!("&cursor={cursor}");
        let cursor_param = cursor.as_ref().map(format_param).unwrap_or_default();
        let page = server.get(&format!("/api/approvals?limit=1{cursor_param}")).await;
        assert_eq!(waiting_runs(&page).len(), 1);
        seen.extend(waiting_runs(&page));
        match page.json().get("next_cursor").cloned() {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => break,
        }
        // The headers have the cursor too, as in the list of runs.
        assert_eq!(page.header("x-next-cursor"), cursor.as_deref());
        let next = cursor.as_deref().unwrap_or_default();
        let link = format!("</api/approvals?limit=1&cursor={next}>; rel=\"next\"");
        assert_eq!(page.header("link"), Some(&*link));
    }
    assert_eq!(seen, all);
    let exact = server.get("/api/approvals?limit=3").await;
    assert_eq!(exact.json().get("next_cursor"), None);
    for id in &all {
        let path = format!("/api/approvals?execution_id={id}");
        let one = server.get(&path).await;
        assert_eq!(waiting_runs(&one), [id.as_str()]);
        assert_eq!(one.json().get("next_cursor"), None);
    }
    // A cursor is bound to its list and cannot be forged.
    let cursor = server.get("/api/approvals?limit=1").await;
    let cursor = cursor.text_at("/next_cursor");
    let other_run = format!("execution_id={}&cursor={cursor}", all[2]);
    let forged = format!("cursor={}.1.0", all[0]);
    for (query, code) in [
        (&*other_run, ErrorCode::BadQuery),
        (&*forged, ErrorCode::BadQuery),
        ("cursor=x", ErrorCode::BadQuery),
        ("limit=0", ErrorCode::OutOfRange),
        ("stauts=open", ErrorCode::BadQuery),
        ("execution_id=7000000000000000000", ErrorCode::NotFound),
    ] {
        let refused = server.get(&format!("/api/approvals?{query}")).await;
        refused.assert_problem(code);
    }
    // Approvals of other tenants are not visible.
    let other = create_token(&server.services, "acme", &[Scope::ExecRead]).await;
    let list = server.call_with_token(&other, Method::GET, "/api/approvals", json!({}));
    assert_eq!(waiting_runs(&list.await), [] as [&str; 0]);
    let path = format!("/api/approvals?execution_id={}", all[0]);
    let foreign = server.call_with_token(&other, Method::GET, &path, json!({})).await;
    foreign.assert_problem(ErrorCode::NotFound);
}
