//! What the platform keeps for itself.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, closed_house, is_ok};

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
