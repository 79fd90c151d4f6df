//! Secrets go through every kind of tool and all that may become of its calls, and are found nowhere.
//!
//! Each way has a secret of its own, which tells where it came from, and beside it goes a word that is
//! none: where the word is not found either, the search would prove nothing.

mod paths;
mod places;
mod world;

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use noetl_types::{ExecutionId, ExecutionStatus, Json};

use self::paths::{GROUPS, Path};
use self::places::{BEGINNING, ENDING, Place};
use self::world::World;
use crate::house::{Caller, House, until};
use crate::process::Noetl;
use crate::town::{json, quoted};
use crate::wire::{anything, post};

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_found_nowhere_on_sqlite() {
    Aviary::open(House::on_sqlite()).await.falls_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_found_nowhere_on_postgres() {
    Aviary::open(House::on_postgres()).await.falls_quiet().await;
}

/// A house with a stream, an outbox, traces and talkative logs, and what its tasks talk to.
struct Aviary {
    house: House,
    nats: Nats,
    server: Noetl,
    world: World,
    /// A database, a broker and a folder for the tasks: what they leave there is theirs.
    tables: Database,
    pond: Nats,
    outside: tempfile::TempDir,
}

/// Thirty-two bytes in base64.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

impl Aviary {
    async fn open(house: House) -> Self {
        let nats = Nats::start().expect("a broker");
        let house = house.with_leases_of(30).streaming_to(&nats);
        let world = World::open(secret("keychain_token_issued")).await;
        for folder in ["tmp", "bin"] {
            std::fs::create_dir(house.folder.path().join(folder)).expect("a folder");
        }
        play_engine(&house);
        let mut command = house.command();
        command
            .env("NOETL_LOG", "debug")
            .env("NOETL_OUTBOX_ENABLED", "true")
            .env("NOETL_ENCRYPTION_KEY", KEY)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &world.url)
            .args(["server", "--port", "0"]);
        let server = Noetl::serving_and_telling(&mut command, log(&house, "server"));
        Self {
            nats,
            server,
            world,
            tables: Database::new().expect("a database"),
            pond: Nats::start().expect("a broker"),
            outside: tempfile::tempdir().expect("a folder"),
            house,
        }
    }

    fn url(&self) -> &str {
        self.server.url.as_deref().expect("a server")
    }

    fn worker(&self, name: &str) -> Noetl {
        let mut command = self.house.worker_command(&self.server, name);
        command
            .env("NOETL_LOG", "debug")
            .env("TMPDIR", self.house.folder.path().join("tmp"));
        Noetl::working_and_telling(&mut command, log(&self.house, name))
    }

    /// Lets all secrets go their ways and looks for them everywhere.
    async fn falls_quiet(self) {
        let caller = Caller::of(&self.server);
        let mut places = vec![self.is_refused().await];
        for path in all_paths() {
            self.keep(path).await;
        }
        let child = "workload: { given: '' }\nworkflow:\n  - step: told\n    tool: { kind: noop, result: \"{{ workload.given }}\" }\n";
        self.register(&caller, "child", child).await;
        let mut runs = vec![(self.killed(&caller).await, &[] as &[Path])];
        for (group, paths) in GROUPS {
            self.register(&caller, group, &playbook(paths)).await;
            runs.push((self.start(&caller, group).await, paths));
        }
        // Commands that nobody waits for are told by the broker, so the workers come last.
        let workers = ["w1", "w2"].map(|name| self.worker(name));
        let stopped = self.cancelled(&caller).await;
        let mut strange = Vec::new();
        for (run, paths) in &runs {
            let ended =
                |status: &noetl_api::execution::StatusView| status.completed || status.failed;
            caller.until(*run, ended).await;
            let status = caller.status(*run).await;
            let expected = if paths.iter().any(|path| path.is_last) {
                ExecutionStatus::Failed
            } else {
                ExecutionStatus::Completed
            };
            if status.status != expected {
                strange.push(format!("{status:?}"));
            }
        }
        runs.push((stopped, &[]));
        places.extend(self.asked(&runs).await);
        places.extend(self.published().await);
        workers.into_iter().for_each(Noetl::leave);
        let Self { house, server, .. } = &self;
        server.signal("KILL");
        places.push(places::rows(house).await.proven_by(all_words()));
        places.extend(places::files(house.folder.path()).into_iter().map(proven));
        strange.extend(places.iter().flat_map(Place::faults));
        assert!(strange.is_empty(), "{}", strange.join("\n"));
    }

    /// A credential that is refused is not repeated.
    async fn is_refused(&self) -> Place {
        let body = format!(
            r#"{{"name":"c_refused","type":7,"data":{}}}"#,
            quoted(secret("refused"))
        );
        let answer = post(self.url(), "/api/credentials", &json(&body)).await;
        assert!((400..500).contains(&answer.status), "{answer:?}");
        Place::new("the answer to a wrong credential", answer.body.to_string())
            .proven_by(["validation"])
    }

    async fn keep(&self, path: &Path) {
        let (kind, data) = path.credential;
        let data = data.replace("<V>", &secret(path.name));
        let body = format!(
            r#"{{"name":"c_{}","type":"{kind}","data":{data}}}"#,
            path.name
        );
        post(self.url(), "/api/credentials", &json(&body))
            .await
            .ok();
    }

    async fn register(&self, caller: &Caller, name: &str, body: &str) {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: canary/{name} }}\n{body}"
        );
        let content = content
            .replace("<URL>", &self.world.url)
            .replace("<DSN>", &self.tables.config())
            .replace("<NATS>", self.pond.url())
            .replace(
                "<FILE>",
                &self.outside.path().join("tasks.db").display().to_string(),
            );
        let request = RegisterRequest {
            content,
            resource_type: None,
            dry_run: false,
        };
        let registered = caller.0.catalog_register(&request).await;
        registered.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    async fn start(&self, caller: &Caller, name: &str) -> ExecutionId {
        let path = format!("canary/{name}");
        let started = caller.start(&path, Json::empty_map()).await;
        started.expect("started")
    }

    /// A run that is cancelled while its task has the secret.
    async fn cancelled(&self, caller: &Caller) -> ExecutionId {
        let sign = self.outside.path().join("begun");
        let name = "cancelled";
        let body = format!(
            "keychain: [{{ name: k, kind: bearer, auth: c_shell_says }}]\nworkflow:\n  - step: {name}\n    tool: {{ kind: shell, command: \"echo '{{{{ keychain.k.token }}}}'; touch {}; sleep 60\" }}\n",
            sign.display()
        );
        self.register(caller, name, &body).await;
        let run = self.start(caller, name).await;
        until("the task runs", || sign.exists()).await;
        let path = format!("/api/executions/{run}/cancel");
        post(self.url(), &path, &Json::empty_map()).await.ok();
        caller.until(run, |status| status.is_cancelled).await;
        run
    }

    /// A run whose worker is killed while its task has the secret; another one makes the call again.
    async fn killed(&self, caller: &Caller) -> ExecutionId {
        let sign = self.outside.path().join("doomed");
        let name = "killed";
        let body = format!(
            "keychain: [{{ name: k, kind: bearer, auth: c_shell_says }}]\nworkflow:\n  - step: {name}\n    tool: {{ kind: shell, command: \"echo '{{{{ keychain.k.token }}}}'; if [ ! -e {sign} ]; then touch {sign}; sleep 60; fi\" }}\n",
            sign = sign.display()
        );
        self.register(caller, name, &body).await;
        let worker = self.worker("w0");
        let run = self.start(caller, name).await;
        until("the task runs", || sign.exists()).await;
        worker.kill();
        run
    }

    /// What people and programs are told who ask.
    async fn asked(&self, runs: &[(ExecutionId, &[Path])]) -> Vec<Place> {
        let mut places = Vec::new();
        for (run, paths) in runs {
            let words = words(paths);
            for place in places::commands(&self.house, self.url(), *run) {
                let all = words.clone().into_iter();
                places.push(if place.is_of("runs events") || place.is_of("runs tail") {
                    place.proven_by(all)
                } else if place.is_of("runs logs") {
                    place.proven_by(all.filter(|word| word == "seenit_shell_says"))
                } else if place.is_of("runs explain") {
                    place.proven_by(all.filter(|word| word == "seenit_end_fails"))
                } else {
                    place.proven_by([run.to_string()])
                });
            }
            for (path, proofs) in [
                ("", Vec::new()),
                ("/status", Vec::new()),
                ("/explain", Vec::new()),
                ("/export", Vec::new()),
                ("/events?limit=500", words.clone()),
                ("/events/stream", words.clone()),
            ] {
                let path = format!("/api/executions/{run}{path}");
                let told = anything(self.url(), &path).await;
                places.push(Place::new(path, told).proven_by(proofs));
            }
        }
        for (path, proof) in [
            ("/api/executions", "canary/shell"),
            ("/api/credentials", "c_shell_says"),
            ("/api/stream/feed?limit=500", "events"),
            ("/metrics", "noetl_"),
        ] {
            let told = anything(self.url(), path).await;
            places.push(Place::new(path, told).proven_by([proof]));
        }
        places
    }

    /// What was sent to others: messages and traces, once all of it has come, or after a while.
    async fn published(&self) -> Vec<Place> {
        for _ in 0..300 {
            let sent = self.sent().await;
            if sent.len() == 3 && sent.iter().all(Place::is_proven) {
                return sent;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.sent().await
    }

    async fn sent(&self) -> Vec<Place> {
        let steps = all_paths().map(|path| path.name);
        let traces = Place::new("the traces", self.world.traces()).proven_by(steps);
        let streams = places::messages(&self.nats).await.into_iter();
        let streams = streams.map(|place| {
            if place.is_of("noetl_events") {
                place.proven_by(all_words())
            } else {
                place.proven_by(["execution_id"])
            }
        });
        streams.chain([traces]).collect()
    }
}

fn log(house: &House, name: &str) -> Stdio {
    let path = house.folder.path().join(format!("{name}.log"));
    Stdio::from(File::create(path).expect("a file"))
}

/// What has to be found in the files of the house for the search to mean anything.
fn proven(place: Place) -> Place {
    if place.is_of(".log") {
        place.proven_by(["DEBUG"])
    } else {
        place
    }
}

fn secret(name: &str) -> String {
    format!("{BEGINNING}-{name}-{ENDING}")
}

fn all_paths() -> impl Iterator<Item = &'static Path> + Clone {
    GROUPS.iter().flat_map(|(_, paths)| *paths)
}

fn words(paths: &[Path]) -> Vec<String> {
    let told = paths.iter().filter(|path| path.is_told);
    told.map(|path| format!("seenit_{}", path.name)).collect()
}

fn all_words() -> Vec<String> {
    GROUPS.iter().flat_map(|(_, paths)| words(paths)).collect()
}

/// A playbook whose steps are these paths, one after the other.
fn playbook(paths: &[Path]) -> String {
    let mut text = "workbook:
  - name: tell
    tool: { kind: python, code: 'result = [token, word]' }
keychain:
  - { name: issued, kind: oauth2, endpoint: \"<URL>/token\", auth: c_keychain_token }
  - { name: refused, kind: oauth2, endpoint: \"<URL>/refuses\", auth: c_keychain_refused }
  - { name: mapped, kind: credential, auth: c_keychain_mapped, map: { inner: outer.inner } }
"
    .to_owned();
    for Path { name, .. } in paths {
        text.push_str(&format!(
            "  - {{ name: {name}, kind: bearer, auth: c_{name} }}\n"
        ));
    }
    text.push_str("workflow:\n");
    let next = paths.iter().skip(1).map(|path| path.name).chain(["end"]);
    for (path, next) in paths.iter().zip(next) {
        let name = path.name;
        let written = |text: &str| {
            text.replace("<S>", &format!("{{{{ keychain.{name}.token }}}}"))
                .replace("<K>", &format!("keychain.{name}.token"))
                .replace("<M>", &format!("{{{{ 'seen' ~ 'it_{name}' }}}}"))
                .replace("<N>", name)
        };
        let tool = written(path.tool).replace('\n', "\n      ");
        let when = if path.fails {
            ", when: \"{{ event.name == 'call.error' }}\""
        } else {
            ""
        };
        text.push_str(&format!("  - step: {name}\n"));
        if !path.step.is_empty() {
            text.push_str(&format!("    {}\n", written(path.step)));
        }
        text.push_str(&format!("    tool:\n      {tool}\n"));
        if !path.is_last {
            text.push_str(&format!(
                "    next: {{ arcs: [{{ step: {next}{when} }}] }}\n"
            ));
        }
    }
    if !paths.iter().any(|path| path.is_last) {
        text.push_str("  - step: end\n    tool: { kind: noop }\n");
    }
    text
}

/// An engine of containers that says what it was given, and fails with it where it is asked to.
fn play_engine(house: &House) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = house.programs().join("docker");
    let script = r#"#!/bin/sh
verb=$1
for last; do :; done
case "$verb$last" in
rm*) echo "No such container: $last" >&2; exit 1 ;;
runbroken*) echo "$WHO $WORD" >&2; exit 9 ;;
run*) echo "$WHO $WORD" ;;
esac
"#;
    std::fs::write(&file, script).expect("a program");
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, all).expect("permissions");
}
