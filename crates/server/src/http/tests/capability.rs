//! A worker without a token works on the command that it was told of, and on nothing else.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue};
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::secret_audit::SecretAuditQuery;
use noetl_store::MemoryStore;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, Millis, Scope, SecretOperation, TenantId, Timestamp,
};
use serde_json::{Value, json};

use super::paper::Paper;
use super::tokens::{routes, token_of, with_some_id, with_token};
use super::{House, Reply, house, house_of, is_ok, request};
use crate::clock::{Clock as _, SystemClock};
use crate::http::settings::HttpSettings;
use crate::runtime::{Capability, Runtime, Settings};
use crate::vault::{Key, KeyRing};

/// Two commands that wait side by side, and name credentials in every way there is.
const NAMES_THEM: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workload: { account: by_template }
keychain:
  - { name: api, kind: bearer, auth: by_entry }
  - { name: unread, kind: bearer, auth: of_unread }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: item, spec: { mode: parallel } }
    tool:
      kind: http
      url: 'http://localhost/{{ item }}'
      auth: '{{ workload.account }}'
      headers: { authorization: 'Bearer {{ keychain.api.token }}' }
";

/// The same for the sides of a transfer.
const NAMES_THEM_AT_ITS_SIDES: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workload: { account: by_template }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: item, spec: { mode: parallel } }
    tool:
      kind: transfer
      source: { type: http, url: 'http://localhost/', auth: by_entry }
      target: { type: postgres, table: 't{{ item }}', auth: '{{ workload.account }}' }
";

const SECRET: &str = "sesame-opens-42";

fn keys() -> Arc<KeyRing> {
    let key = Key::read(&Key::text_of_new().unwrap()).unwrap();
    Arc::new(KeyRing::new(key, Vec::new()))
}

/// A server that wants tokens, and whose notices have capabilities.
async fn closed(keys: Option<Arc<KeyRing>>, store: Arc<MemoryStore>) -> House {
    let settings = Settings {
        keys,
        notify_capability: true,
        ..Settings::default()
    };
    let runtime = Runtime::open(store, Arc::new(SystemClock), settings).await;
    let http = HttpSettings {
        is_dev: false,
        ..HttpSettings::default()
    };
    house_of(runtime.unwrap(), &http)
}

/// A run with two commands that wait, and all that a worker needs to work on the first.
struct Scene {
    house: House,
    user: String,
    run: ExecutionId,
    commands: Vec<CommandId>,
}

impl Scene {
    async fn new() -> Self {
        Self::of(NAMES_THEM).await
    }

    async fn of(playbook: &str) -> Self {
        let house = closed(Some(keys()), Arc::new(MemoryStore::new())).await;
        let scopes = [
            Scope::ExecRun,
            Scope::ExecRead,
            Scope::CatalogWrite,
            Scope::CredAdmin,
            Scope::Worker,
            Scope::Admin,
        ];
        let user = token_of(&house.runtime, "default", &scopes).await;
        let mut scene = Self {
            house,
            user,
            run: ExecutionId::new(1).unwrap(),
            commands: Vec::new(),
        };
        let body = json!({ "content": playbook });
        scene.ask(Method::POST, "/api/catalog/register", body).await;
        for name in ["by_template", "by_entry", "of_unread", "other"] {
            let secret = json!({ "name": name, "type": "bearer", "data": { "token": SECRET } });
            scene.ask(Method::POST, "/api/credentials", secret).await;
        }
        scene.run = scene.started().await;
        let path = format!("/api/commands?execution_id={}", scene.run);
        let list = scene.ask(Method::GET, &path, json!({})).await;
        let ids = list.at("/commands");
        let ids = ids.as_array().unwrap().iter();
        let ids = ids.map(|command| command["command_id"].as_str().unwrap().parse());
        scene.commands = ids.collect::<Result<_, _>>().unwrap();
        assert_eq!(scene.commands.len(), 2);
        scene
    }

    async fn started(&self) -> ExecutionId {
        let body = json!({ "path": "demo/names" });
        let begun = self.ask(Method::POST, "/api/execute", body).await;
        begun.text_at("/execution_id").parse().unwrap()
    }

    /// Asks with the token of somebody who may do everything.
    async fn ask(&self, method: Method, path: &str, body: Value) -> Reply {
        let reply = self.house.call(&self.user, method, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    }

    /// What the notice of a command lets its bearer do.
    fn capability(&self, place: usize) -> Capability {
        let now = SystemClock.now();
        Capability {
            tenant_id: TenantId::default(),
            execution_id: self.run,
            command_id: self.commands[place],
            claim_by: now.saturating_add(Millis::from_secs(120)),
            expires_at: now.saturating_add(Millis::from_secs(300)),
        }
    }

    /// Asks as a worker elsewhere that was told of the first command, and has no token.
    async fn work(&self, method: Method, path: &str, body: Value) -> Reply {
        let shown = self.house.runtime.signed(&self.capability(0));
        self.house.shows(&shown, method, path, body).await
    }

    async fn claimed(&self) -> Reply {
        let path = format!("/api/commands/{}/claim", self.commands[0]);
        let claimed = self.work(Method::POST, &path, json!({ "worker_id": "w1" }));
        claimed.await
    }
}

/// What a worker `w1` tells of a command.
fn told(run: ExecutionId, command: CommandId, event_type: &str) -> Value {
    let label = format!("{run}:start:{command}");
    json!({ "execution_id": run, "step": "start", "name": event_type, "worker_id": "w1",
        "payload": { "command_id": label, "result": { "n": 1 } }, "meta": { "attempts": 1 } })
}

fn behind(shown: &str, method: Method, path: &str, body: &Value) -> Request<Body> {
    let path = format!("/w/{shown}{path}");
    let mut request = request(method, &path, serde_json::to_vec(body).unwrap());
    let host = HeaderValue::from_static("noetl.example");
    request.headers_mut().insert(HOST, host);
    request
}

impl House {
    async fn shows(&self, shown: &str, method: Method, path: &str, body: Value) -> Reply {
        let request = behind(shown, method, path, &body);
        self.send_from(([10, 0, 0, 7], 4000).into(), request).await
    }
}

#[tokio::test]
async fn a_worker_without_a_token_works_on_what_it_was_told_of() {
    let scene = Scene::new().await;
    let (run, command) = (scene.run, scene.commands[0]);
    let get = async |path: String| scene.work(Method::GET, &path, json!({})).await;
    let shown = get(format!("/api/commands/{command}")).await;
    assert!(is_ok(&shown), "{}", shown.text);
    let secret = format!("/api/credentials/by_template?include_data=true&execution_id={run}");
    // Nobody holds the command yet.
    get(secret.clone()).await.is_problem(ErrorCode::Forbidden);
    let claimed = scene.claimed().await;
    assert_eq!(claimed.text_at("/status"), "ok", "{}", claimed.text);

    let started = told(run, command, "command.started");
    let started = scene.work(Method::POST, "/api/events", started).await;
    assert_eq!(started.text_at("/status"), "ok", "{}", started.text);
    let vars = format!("/api/vars/{run}");
    let set = scene.work(Method::POST, &vars, json!({ "seen": 7 })).await;
    assert!(is_ok(&set), "{}", set.text);
    assert_eq!(get(format!("{vars}/seen")).await.at("/var_value"), 7);
    let body = json!({ "name": "start", "data": { "rows": [1] } });
    let path = format!("/api/result/{run}");
    let kept = scene.work(Method::PUT, &path, body).await.text_at("/ref");
    let resolved = get(format!("/api/result/resolve?ref={kept}")).await;
    assert_eq!(resolved.json(), json!({ "rows": [1] }));

    assert_eq!(get(secret).await.text_at("/data/token"), SECRET);
    let by_entry = "/api/credentials/by_entry?include_data=true".to_owned();
    assert_eq!(get(by_entry).await.text_at("/data/token"), SECRET);
    let only_seen = get("/api/credentials/by_entry".to_owned()).await;
    assert_eq!(only_seen.text_at("/name"), "by_entry");
    assert!(!only_seen.text.contains(SECRET));
    for unnamed in ["other", "of_unread", "nobody"] {
        for query in ["", "?include_data=true"] {
            let refused = get(format!("/api/credentials/{unnamed}{query}")).await;
            refused.is_problem(ErrorCode::Forbidden);
        }
    }

    let done = json!({ "execution_id": run, "worker_id": "w1",
        "events": [told(run, command, "call.done")] });
    let done = scene.work(Method::POST, "/api/events/batch", done).await;
    assert_eq!(done.text_at("/status"), "ok", "{}", done.text);
    let log = format!("/api/executions/{run}/events?limit=100");
    let log = scene.ask(Method::GET, &log, json!({})).await;
    assert!(log.text.contains("command.completed"), "{}", log.text);
    // It is done, so nothing is lent for it any more.
    let later = get("/api/credentials/by_entry?include_data=true".to_owned()).await;
    later.is_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn each_side_of_a_transfer_names_a_credential() {
    let scene = Scene::of(NAMES_THEM_AT_ITS_SIDES).await;
    scene.claimed().await;
    let lent = async |name: &str| {
        let path = format!("/api/credentials/{name}?include_data=true");
        scene.work(Method::GET, &path, json!({})).await
    };
    for name in ["by_entry", "by_template"] {
        assert_eq!(lent(name).await.text_at("/data/token"), SECRET, "{name}");
    }
    lent("other").await.is_problem(ErrorCode::Forbidden);
}

/// A worker of an earlier release shows its token where its own address has it; that is all it needs.
#[tokio::test]
async fn such_a_worker_registers_with_a_token_in_its_own_address() {
    let scene = Scene::new().await;
    let token = token_of(&scene.house.runtime, "default", &[Scope::Worker]).await;
    let pair = BASE64_STANDARD.encode(format!("worker:{token}"));
    let basic = HeaderValue::try_from(format!("Basic {pair}")).unwrap();
    let post = async |path: &str, body: Value| {
        let mut request = request(Method::POST, path, body.to_string());
        request.headers_mut().insert(AUTHORIZATION, basic.clone());
        scene
            .house
            .send_from(([10, 0, 0, 7], 4000).into(), request)
            .await
    };
    let worker = json!({ "name": "w1", "component_type": "worker_pool", "runtime": "rust",
        "status": "ready", "hostname": "h", "labels": { "pool_name": "shared" } });
    let registered = post("/api/worker/pool/register", worker).await;
    assert!(is_ok(&registered), "{}", registered.text);
    let claimed = scene.claimed().await;
    assert!(is_ok(&claimed), "{}", claimed.text);
    // What it claimed without the token is kept by the sign of life that it gives with it, and what
    // nobody wants any more it is told there.
    let cancel = format!("/api/executions/{}/cancel", scene.run);
    scene.ask(Method::POST, &cancel, json!({})).await;
    let beat = post("/api/worker/pool/heartbeat", json!({ "name": "w1" })).await;
    let cancelled = beat.at("/cancel");
    assert_eq!(
        cancelled,
        json!([scene.commands[0].to_string()]),
        "{}",
        beat.text
    );
}

#[tokio::test]
async fn what_is_forged_altered_or_expired_opens_nothing() {
    let scene = Scene::new().await;
    let good = scene.house.runtime.signed(&scene.capability(0));
    let path = format!("/api/commands/{}", scene.commands[0]);
    let ask = async |shown: &str| {
        let reply = scene
            .house
            .shows(shown, Method::GET, &path, json!({}))
            .await;
        assert!(
            !reply.text.contains(shown) || shown.is_empty(),
            "{}",
            reply.text
        );
        reply
    };
    assert!(is_ok(&ask(&good).await));
    let middle = good.len() / 2;
    let other = if &good[middle..=middle] == "A" {
        "B"
    } else {
        "A"
    };
    let altered = format!("{}{other}{}", &good[..middle], &good[middle + 1..]);
    let cut = &good[..good.len() - 1];
    for wrong in ["", "x", "%20", &altered, cut, &format!("{good}A")] {
        ask(wrong).await.is_problem(ErrorCode::Unauthenticated);
    }
    // Another installation signs under another key.
    let elsewhere = closed(Some(keys()), Arc::new(MemoryStore::new())).await;
    let foreign = elsewhere.runtime.signed(&scene.capability(0));
    ask(&foreign).await.is_problem(ErrorCode::Unauthenticated);

    let long_ago = Timestamp::from_unix_ms(1_700_000_000_000).unwrap();
    let expired = Capability {
        expires_at: long_ago,
        ..scene.capability(0)
    };
    let expired = scene.house.runtime.signed(&expired);
    ask(&expired).await.is_problem(ErrorCode::TokenExpired);
    // Who comes too late for all the time that a command may take must not begin.
    let late = Capability {
        claim_by: long_ago,
        ..scene.capability(0)
    };
    let late = scene.house.runtime.signed(&late);
    assert!(is_ok(&ask(&late).await));
    let claim = format!("{path}/claim");
    let body = json!({ "worker_id": "w1" });
    let claim = scene.house.shows(&late, Method::POST, &claim, body).await;
    claim.is_problem(ErrorCode::TokenExpired);
}

#[tokio::test]
async fn a_capability_is_for_one_command_of_one_run_of_one_tenant() {
    let scene = Scene::new().await;
    assert!(is_ok(&scene.claimed().await));
    let (run, second) = (scene.run, scene.commands[1]);
    let other = scene.started().await;
    let result = json!({ "name": "start", "data": 1 });
    let of_other = format!("/api/result/{other}");
    let of_other = scene.ask(Method::PUT, &of_other, result.clone()).await;
    let of_other = of_other.text_at("/ref");
    let worker = json!({ "worker_id": "w1" });
    let by_reference = {
        let mut told = told(run, scene.commands[0], "call.done");
        told["result_kind"] = json!("ref");
        told["result_uri"] = json!(of_other);
        told
    };
    for (method, path, body) in [
        (Method::GET, format!("/api/commands/{second}"), json!({})),
        (
            Method::POST,
            format!("/api/commands/{second}/claim"),
            worker,
        ),
        (
            Method::POST,
            "/api/events".to_owned(),
            told(run, second, "call.done"),
        ),
        (
            Method::POST,
            "/api/events".to_owned(),
            told(other, second, "call.done"),
        ),
        (Method::POST, "/api/events".to_owned(), by_reference),
        (Method::GET, format!("/api/vars/{other}"), json!({})),
        (Method::GET, format!("/api/vars/{other}/x"), json!({})),
        (
            Method::POST,
            format!("/api/vars/{other}"),
            json!({ "x": 1 }),
        ),
        (Method::DELETE, format!("/api/vars/{other}"), json!({})),
        (Method::PUT, format!("/api/result/{other}"), result),
        (
            Method::GET,
            format!("/api/result/resolve?ref={of_other}"),
            json!({}),
        ),
        (
            Method::GET,
            format!("/api/credentials/by_entry?include_data=true&execution_id={other}"),
            json!({}),
        ),
    ] {
        let reply = scene.work(method.clone(), &path, body).await;
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text);
    }
    // The same ids are nothing to another tenant.
    let theirs = Capability {
        tenant_id: TenantId::new("acme").unwrap(),
        ..scene.capability(0)
    };
    let theirs = scene.house.runtime.signed(&theirs);
    let path = format!("/api/commands/{}", scene.commands[0]);
    let reply = scene
        .house
        .shows(&theirs, Method::GET, &path, json!({}))
        .await;
    reply.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn a_capability_opens_no_other_route() {
    let scene = Scene::new().await;
    let mut opened = 0;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        let reply = scene.work(method.clone(), &path, json!({})).await;
        if !path.starts_with("/api/") {
            reply.is_problem(ErrorCode::NotFound);
        } else if route.is_of_command {
            opened += 1;
            assert_ne!(reply.status, 401, "{method} {path}");
        } else {
            reply.is_problem(ErrorCode::Forbidden);
        }
    }
    assert_eq!(opened, 12);
    // A token beside it adds nothing.
    let shown = scene.house.runtime.signed(&scene.capability(0));
    let both = behind(&shown, Method::GET, "/api/executions", &json!({}));
    let reply = scene.house.send(with_token(both, &scene.user)).await;
    reply.is_problem(ErrorCode::Forbidden);
    let wrong = behind("wrong", Method::GET, "/api/executions", &json!({}));
    let reply = scene.house.send(with_token(wrong, &scene.user)).await;
    reply.is_problem(ErrorCode::Unauthenticated);
}

/// Who asks for a secret by a capability leaves the same trace as who shows a token.
#[tokio::test]
async fn a_secret_that_is_lent_to_a_command_is_told_as_lent() {
    let scene = Scene::new().await;
    assert!(is_ok(&scene.claimed().await));
    let acts = async |path: &str| {
        scene.work(Method::GET, path, json!({})).await;
        let query = SecretAuditQuery {
            execution_id: Some(scene.run),
            ..SecretAuditQuery::default()
        };
        let rows = scene.house.runtime.secret_audit(query).await.unwrap().rows;
        let newest = rows.first().expect("nothing is told of the run");
        (newest.operation, newest.worker_id.clone())
    };
    let worker = Some("w1".parse().unwrap());
    let path = "/api/credentials/by_entry";
    let looked = acts(path).await;
    assert_eq!(looked, (SecretOperation::Look, worker.clone()));
    let lent = acts(&format!("{path}?include_data=true")).await;
    assert_eq!(lent, (SecretOperation::Lend, worker));
}

#[tokio::test]
async fn where_notices_have_none_none_is_taken() {
    let scene = Scene::new().await;
    let shown = scene.house.runtime.signed(&scene.capability(0));
    // Not even at the machine of a developer, who needs none.
    let reply = house().await;
    let reply = reply
        .send(request(
            Method::GET,
            &format!("/w/{shown}/api/executions"),
            "",
        ))
        .await;
    reply.is_problem(ErrorCode::Unauthenticated);
}

/// Without keys of secrets, servers on one store still know what the others signed.
#[tokio::test]
async fn servers_without_keys_share_a_secret() {
    let store = Arc::new(MemoryStore::new());
    let (here, there) = (closed(None, store.clone()).await, closed(None, store).await);
    let scene = Scene::new().await;
    let shown = here.runtime.signed(&scene.capability(0));
    assert!(there.runtime.capability(&shown).is_ok());
    let elsewhere = closed(None, Arc::new(MemoryStore::new())).await;
    assert!(elsewhere.runtime.capability(&shown).is_err());
}

#[tokio::test]
async fn a_capability_is_told_nowhere() {
    let scene = Scene::new().await;
    assert!(is_ok(&scene.claimed().await));
    let paper = Paper::default();
    let watched = paper.watch();
    let shown = scene.house.runtime.signed(&scene.capability(0));
    let mut replies = Vec::new();
    for path in [
        "/api/credentials/by_entry?include_data=true",
        "/api/executions",
        "/api/nowhere",
        "/elsewhere",
        "",
    ] {
        let reply = scene
            .house
            .shows(&shown, Method::GET, path, json!({}))
            .await;
        replies.push(format!("{:?}{}", reply.headers, reply.text));
    }
    drop(watched);
    replies.push(paper.text());
    assert!(
        replies[5].contains(r#""path":"/api/executions""#),
        "{replies:?}"
    );
    let trail = scene.ask(Method::GET, "/api/audit", json!({})).await;
    assert!(
        trail.text.contains("/api/credentials/by_entry"),
        "{}",
        trail.text
    );
    let actor = format!("command:{}", scene.commands[0]);
    assert!(trail.text.contains(&actor), "{}", trail.text);
    replies.push(trail.text);
    replies.push(scene.ask(Method::GET, "/metrics", json!({})).await.text);
    for told in replies {
        assert!(!told.contains(&shown), "{told}");
    }
}
