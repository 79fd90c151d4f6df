//! Restrictions on platform playbooks and their pool.

use axum::http::Method;
use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_store::OutboxFilter;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionStatus, PlaybookPath, Scope, TenantId};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, is_ok, start_secured_server};
use crate::access::AuthContext;
use crate::access::CallContext;
use crate::http::settings::HttpSettings;

/// A server with the two-step and the platform playbooks, an admin and a user.
struct PlatformSetup {
    server: TestServer,
    admin: String,
    user: String,
}

const USER_SCOPES: [Scope; 4] =
    [Scope::ExecRead, Scope::ExecRun, Scope::CatalogRead, Scope::CatalogWrite];

impl PlatformSetup {
    async fn new() -> Self {
        let server = start_secured_server().await;
        server.services.system_playbooks.register_system_playbooks().await.unwrap();
        let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
        let user = create_token(&server.services, "default", &USER_SCOPES).await;
        let setup = Self { server, admin, user };
        let body = json!({ "content": TWO_STEPS });
        let registered = setup.post_as(&setup.user, "/api/catalog/register", body).await;
        assert!(is_ok(&registered), "{}", registered.text);
        setup
    }

    async fn post_as(&self, token: &str, path: &str, body: Value) -> TestResponse {
        self.server.call_with_token(token, Method::POST, path, body).await
    }
}

/// Workers of the platform pool have access that no other pool has.
#[tokio::test]
async fn platform_pool_requires_admin() {
    let setup = PlatformSetup::new().await;
    let request = json!({ "path": "demo/two", "execution_pool": "system" });
    let execute = "/api/execute";
    let refused = setup.post_as(&setup.user, execute, request.clone()).await;
    refused.assert_problem(ErrorCode::Forbidden);
    let batch = json!({ "executions": [request] });
    let batch = setup.post_as(&setup.user, "/api/execute/batch", batch).await;
    assert_eq!(batch.json_at("/failed"), 1, "{}", batch.text);
    let request = json!({ "path": "demo/two", "execution_pool": "system" });
    let started = setup.post_as(&setup.admin, execute, request).await;
    assert!(is_ok(&started), "{}", started.text);
    // A rerun uses the same pool.
    let rerun = format!("/api/executions/{}/rerun", started.text_at("/execution_id"));
    let refused = setup.post_as(&setup.user, &rerun, json!({})).await;
    refused.assert_problem(ErrorCode::Forbidden);
    assert!(is_ok(&setup.post_as(&setup.admin, &rerun, json!({})).await));
}

/// System playbooks run with platform rights: a caller that sets the retention of a cleanup can
/// drop the log.
#[tokio::test]
async fn platform_playbook_input_requires_admin() {
    let setup = PlatformSetup::new().await;
    let execute = "/api/execute";
    let plain = json!({ "path": "system/scheduled_cleanup", "payload": {} });
    assert!(is_ok(&setup.post_as(&setup.user, execute, plain).await));
    let days = json!({ "event_retention_days": 1 });
    // A run with the dedup key of a scheduled run would replace it.
    let scheduled_key = json!({ "key": "system/scheduled_cleanup:1" });
    for (key, value) in [("payload", &days), ("workload", &days), ("dedup", &scheduled_key)] {
        let body = json!({ "path": "system/scheduled_cleanup", key: value });
        let refused = setup.post_as(&setup.user, execute, body.clone()).await;
        refused.assert_problem(ErrorCode::Forbidden);
        assert!(is_ok(&setup.post_as(&setup.admin, execute, body).await));
    }
    // On another pool it would have no effect, but still replace the scheduled run.
    let body = json!({ "path": "system/scheduled_cleanup", "execution_pool": "shared",
        "dedup": { "key": "system/scheduled_cleanup:2" } });
    let refused = setup.post_as(&setup.user, execute, body).await;
    refused.assert_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn archiving_platform_playbooks_requires_admin() {
    let setup = PlatformSetup::new().await;
    let path = "/api/catalog/playbooks/system/outbox_publisher";
    let archive = async |token: &str| {
        setup.server.call_with_token(token, Method::DELETE, path, json!({})).await
    };
    archive(&setup.user).await.assert_problem(ErrorCode::Forbidden);
    let archived = archive(&setup.admin).await;
    assert!(is_ok(&archived), "{}", archived.text);
    let body = json!({ "path": "system/outbox_publisher" });
    let restore = "/api/catalog/restore";
    let refused = setup.post_as(&setup.user, restore, body.clone()).await;
    refused.assert_problem(ErrorCode::Forbidden);
    assert!(is_ok(&setup.post_as(&setup.admin, restore, body).await));
}

/// Returns the outcome of a run without workers.
async fn wait_for_outcome(
    setup: &PlatformSetup,
    run: &TestResponse,
) -> (ExecutionStatus, Option<String>) {
    assert!(is_ok(run), "{}", run.text);
    let id = run.text_at("/execution_id").parse().unwrap();
    let timeout = std::time::Duration::from_secs(20);
    let end =
        setup.server.services.executions.wait_for_end(CallContext::server(), id, timeout).await;
    let end = end.unwrap().unwrap();
    (end.status, end.error.map(|error| error.to_string()))
}

/// A playbook that only calls another one.
fn calling_playbook(path: &str, call: &str) -> Value {
    let name = path.split('/').next_back().unwrap();
    let content = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: {path} }}\nworkflow:\n  \
         - {{ step: call, tool: {{ kind: playbook, path: system/scheduled_cleanup, {call} }} }}\n"
    );
    json!({ "content": content })
}

/// A call from a user's playbook cannot do so either, even if an admin starts that playbook.
#[tokio::test]
async fn user_run_cannot_pass_input_to_platform_playbook() {
    let setup = PlatformSetup::new().await;
    let input = "input: { event_retention_days: 1 }, return_result: true";
    for (token, path, call, is_refused) in [
        (&setup.user, "demo/sly", input, true),
        (&setup.user, "demo/plain", "return_result: false", false),
        (
            &setup.admin,
            "system/nightly",
            "input: { event_retention_days: 30 }, return_result: false",
            false,
        ),
    ] {
        let registered =
            setup.post_as(token, "/api/catalog/register", calling_playbook(path, call));
        let registered = registered.await;
        assert!(is_ok(&registered), "{}", registered.text);
        let started = setup.post_as(&setup.admin, "/api/execute", json!({ "path": path })).await;
        let (status, error) = wait_for_outcome(&setup, &started).await;
        if is_refused {
            assert_eq!(status, ExecutionStatus::Failed);
            assert!(error.unwrap().contains("only an admin"), "{path}");
        } else {
            assert_eq!((status, error), (ExecutionStatus::Completed, None), "{path}");
        }
    }
    setup.server.services.close(std::time::Duration::from_mins(1)).await;
    let children = setup
        .server
        .call_with_token(
            &setup.admin,
            Method::GET,
            "/api/executions?path=system/scheduled_cleanup",
            json!({}),
        )
        .await;
    let count = children.json().as_array().map(Vec::len);
    assert_eq!(count, Some(2), "{}", children.text);
}

/// A run of another tenant at the path of the publisher is an ordinary run.
#[tokio::test]
async fn only_platform_publisher_runs_skip_outbox() {
    let fixture = StoreFixture::in_memory();
    let server = fixture
        .start_server(HttpSettings::default(), |settings| {
            settings.outbox = crate::settings::OutboxSetting::Enabled;
        })
        .await;
    let content = TWO_STEPS.replace("demo/two", "system/outbox_publisher");
    for (tenant, has_rows) in [("acme", true), ("default", false)] {
        let ctx = CallContext::from(AuthContext {
            tenant_id: TenantId::new(tenant).unwrap(),
            ..AuthContext::default()
        });
        let request =
            RegisterRequest { content: content.clone(), resource_type: None, dry_run: false };
        server.services.catalog.register_definition_as_admin(&ctx, request).await.unwrap();
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            ..ExecuteRequest::default()
        };
        let started = server.services.executions.start(&ctx, request).await.unwrap();
        let run = started.answer.execution_id;
        let filter = OutboxFilter { status: None, after: None, limit: PageLimit::MAX };
        let rows = fixture.store.list_outbox_rows(filter).await.unwrap();
        let run_rows = rows.iter().filter(|row| row.execution_id == Some(run)).count();
        assert_eq!(run_rows > 0, has_rows, "{tenant}: {run_rows}");
    }
}

/// Audit events after the end of a run do not change its listed end.
#[tokio::test]
async fn repeated_message_keeps_run_end() {
    on_every_store(async |fixture| {
        let server = fixture.start_server(HttpSettings::default(), |_| ()).await;
        server.start_two_steps().await;
        let message = json!({ "path": "demo/two", "dedup": { "key": "once" } });
        let started = server.post("/api/execute", message.clone()).await;
        let run = started.text_at("/execution_id");
        let cancel = format!("/api/executions/{run}/cancel");
        let cancelled = server.post(&cancel, json!({ "reason": "enough" })).await;
        assert!(is_ok(&cancelled), "{}", cancelled.text);
        let row =
            async || fixture.store.find_execution(run.parse().unwrap()).await.unwrap().unwrap();
        let before = row().await;
        assert!(before.view.ended_at.is_some(), "{before:?}");
        let again = server.post("/api/execute", message).await;
        assert_eq!(again.text_at("/status"), "duplicate");
        server.services.close(std::time::Duration::from_mins(1)).await;
        let after = row().await;
        assert!(after.head.version > before.head.version, "an audit event is appended");
        assert_eq!(after.view, before.view);
    })
    .await;
}
