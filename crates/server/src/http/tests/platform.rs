//! What the platform keeps for itself.

use axum::http::Method;
use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_store::OutboxFilter;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionStatus, PlaybookPath, Scope, TenantId};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, closed_house, is_ok};
use crate::http::settings::HttpSettings;
use crate::runtime::Behalf;

/// A house with the playbook of two steps and those of the platform, an admin and a user of it.
struct Place {
    house: House,
    admin: String,
    user: String,
}

const EVERYDAY: [Scope; 4] = [
    Scope::ExecRead,
    Scope::ExecRun,
    Scope::CatalogRead,
    Scope::CatalogWrite,
];

impl Place {
    async fn new() -> Self {
        let house = closed_house().await;
        house.runtime.register_shipped().await.unwrap();
        let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
        let user = token_of(&house.runtime, "default", &EVERYDAY).await;
        let place = Self { house, admin, user };
        let body = json!({ "content": TWO_STEPS });
        let registered = place.post(&place.user, "/api/catalog/register", body).await;
        assert!(is_ok(&registered), "{}", registered.text);
        place
    }

    async fn post(&self, token: &str, path: &str, body: Value) -> Reply {
        self.house.call(token, Method::POST, path, body).await
    }
}

/// Workers of that pool reach what those of no other do.
#[tokio::test]
async fn only_an_admin_says_what_runs_on_the_pool_of_the_platform() {
    let place = Place::new().await;
    let there = json!({ "path": "demo/two", "execution_pool": "system" });
    let execute = "/api/execute";
    let refused = place.post(&place.user, execute, there.clone()).await;
    refused.is_problem(ErrorCode::Forbidden);
    let batch = json!({ "executions": [there] });
    let batch = place.post(&place.user, "/api/execute/batch", batch).await;
    assert_eq!(batch.at("/failed"), 1, "{}", batch.text);
    let there = json!({ "path": "demo/two", "execution_pool": "system" });
    let begun = place.post(&place.admin, execute, there).await;
    assert!(is_ok(&begun), "{}", begun.text);
    // Once more is once more on that pool.
    let rerun = format!("/api/executions/{}/rerun", begun.text_at("/execution_id"));
    let refused = place.post(&place.user, &rerun, json!({})).await;
    refused.is_problem(ErrorCode::Forbidden);
    assert!(is_ok(&place.post(&place.admin, &rerun, json!({})).await));
}

/// What ships has the rights of the platform: who sets the days of a cleanup drops the log.
#[tokio::test]
async fn only_an_admin_gives_input_to_what_the_platform_runs() {
    let place = Place::new().await;
    let execute = "/api/execute";
    let plain = json!({ "path": "system/scheduled_cleanup", "payload": {} });
    assert!(is_ok(&place.post(&place.user, execute, plain).await));
    let days = json!({ "event_retention_days": 1 });
    // Who has the key of a firing first takes its place.
    let firing = json!({ "key": "system/scheduled_cleanup:1" });
    for (key, value) in [("payload", &days), ("workload", &days), ("dedup", &firing)] {
        let body = json!({ "path": "system/scheduled_cleanup", key: value });
        let refused = place.post(&place.user, execute, body.clone()).await;
        refused.is_problem(ErrorCode::Forbidden);
        assert!(is_ok(&place.post(&place.admin, execute, body).await));
    }
    // On another pool it comes to nothing, and takes the place all the same.
    let body = json!({ "path": "system/scheduled_cleanup", "execution_pool": "shared",
        "dedup": { "key": "system/scheduled_cleanup:2" } });
    let refused = place.post(&place.user, execute, body).await;
    refused.is_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn only_an_admin_puts_what_the_platform_runs_into_the_archive() {
    let place = Place::new().await;
    let path = "/api/catalog/playbooks/system/outbox_publisher";
    let archive = async |token: &str| {
        place
            .house
            .call(token, Method::DELETE, path, json!({}))
            .await
    };
    archive(&place.user).await.is_problem(ErrorCode::Forbidden);
    let archived = archive(&place.admin).await;
    assert!(is_ok(&archived), "{}", archived.text);
    let body = json!({ "path": "system/outbox_publisher" });
    let restore = "/api/catalog/restore";
    let refused = place.post(&place.user, restore, body.clone()).await;
    refused.is_problem(ErrorCode::Forbidden);
    assert!(is_ok(&place.post(&place.admin, restore, body).await));
}

/// Tells how a run ended that nobody works for.
async fn end_of(place: &Place, run: &Reply) -> (ExecutionStatus, Option<String>) {
    assert!(is_ok(run), "{}", run.text);
    let id = run.text_at("/execution_id").parse().unwrap();
    let patience = std::time::Duration::from_secs(20);
    let end = place.house.runtime.wait_for_end(id, patience).await;
    let end = end.unwrap().unwrap();
    (end.status, end.error.map(|error| error.to_string()))
}

/// A playbook that is nothing but a call of another one.
fn calling(path: &str, call: &str) -> Value {
    let name = path.split('/').next_back().unwrap();
    let content = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: {path} }}\nworkflow:\n  \
         - {{ step: call, tool: {{ kind: playbook, path: system/scheduled_cleanup, {call} }} }}\n"
    );
    json!({ "content": content })
}

/// Neither does who calls it from a playbook of their own, which an admin may start.
#[tokio::test]
async fn a_run_of_a_user_gives_no_input_to_what_the_platform_runs() {
    let place = Place::new().await;
    let input = "input: { event_retention_days: 1 }, return_result: true";
    for (token, path, call, is_refused) in [
        (&place.user, "demo/sly", input, true),
        (&place.user, "demo/plain", "return_result: false", false),
        (
            &place.admin,
            "system/nightly",
            "input: { event_retention_days: 30 }, return_result: false",
            false,
        ),
    ] {
        let registered = place.post(token, "/api/catalog/register", calling(path, call));
        let registered = registered.await;
        assert!(is_ok(&registered), "{}", registered.text);
        let begun = place
            .post(&place.admin, "/api/execute", json!({ "path": path }))
            .await;
        let (status, error) = end_of(&place, &begun).await;
        if is_refused {
            assert_eq!(status, ExecutionStatus::Failed);
            assert!(error.unwrap().contains("only an admin"), "{path}");
        } else {
            assert_eq!(
                (status, error),
                (ExecutionStatus::Completed, None),
                "{path}"
            );
        }
    }
    place
        .house
        .runtime
        .close(std::time::Duration::from_mins(1))
        .await;
    let children = place
        .house
        .call(
            &place.admin,
            Method::GET,
            "/api/executions?path=system/scheduled_cleanup",
            json!({}),
        )
        .await;
    let count = children.json().as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{}", children.text);
}

/// What another tenant has at the path of the publisher is a run like all others.
#[tokio::test]
async fn only_runs_of_the_platform_s_own_publisher_are_left_out_of_the_outbox() {
    let shelter = Shelter::memory();
    let house = shelter
        .house(HttpSettings::default(), |settings| settings.outbox = true)
        .await;
    let content = TWO_STEPS.replace("demo/two", "system/outbox_publisher");
    for (tenant, has_rows) in [("acme", true), ("default", false)] {
        let behalf = Behalf {
            tenant_id: TenantId::new(tenant).unwrap(),
            ..Behalf::default()
        };
        let runtime = house.runtime.on_behalf_of(behalf);
        let request = RegisterRequest {
            content: content.clone(),
            resource_type: None,
            dry_run: false,
        };
        runtime.register_any_definition(request).await.unwrap();
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            ..ExecuteRequest::default()
        };
        let run = runtime.execute(request).await.unwrap().execution_id;
        let filter = OutboxFilter {
            status: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let rows = shelter.store.outbox(filter).await.unwrap();
        let its = rows
            .iter()
            .filter(|row| row.execution_id == Some(run))
            .count();
        assert_eq!(its > 0, has_rows, "{tenant}: {its}");
    }
}

/// What is remarked about a run behind its end takes nothing from what lists show of that.
#[tokio::test]
async fn a_message_that_comes_again_leaves_the_end_of_its_run_as_it_is() {
    on_every_store(async |shelter| {
        let house = shelter.house(HttpSettings::default(), |_| ()).await;
        house.started().await;
        let message = json!({ "path": "demo/two", "dedup": { "key": "once" } });
        let begun = house.post("/api/execute", message.clone()).await;
        let run = begun.text_at("/execution_id");
        let cancel = format!("/api/executions/{run}/cancel");
        let cancelled = house.post(&cancel, json!({ "reason": "enough" })).await;
        assert!(is_ok(&cancelled), "{}", cancelled.text);
        let row = async || {
            shelter
                .store
                .execution(run.parse().unwrap())
                .await
                .unwrap()
                .unwrap()
        };
        let before = row().await;
        assert!(before.view.ended_at.is_some(), "{before:?}");
        let again = house.post("/api/execute", message).await;
        assert_eq!(again.text_at("/status"), "duplicate");
        house.runtime.close(std::time::Duration::from_mins(1)).await;
        let after = row().await;
        assert!(after.head.version > before.head.version, "it is remarked");
        assert_eq!(after.view, before.view);
    })
    .await;
}
