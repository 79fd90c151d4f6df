//! The HTTP API as strangers meet it: a tester that only knows its document, and the Python client.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use noetl_api::Client;
use noetl_api::client::{BearerToken, ClientSettings};
use noetl_api::tokens::NewToken;
use noetl_types::Scope;

use crate::house::House;
use crate::process::Noetl;

/// The tester's version; `scripts/test` installs the same.
const SCHEMATHESIS: &str = "schemathesis-4.32.5";

/// Test cases for each operation, beside those that cover its bounds.
const CASES: &str = "12";

/// What it looks at. A request that the document allows may still be refused, as one for a playbook that
/// is not there, so that is not among them.
const CHECKS: [&str; 8] = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "ignored_auth",
    "unsupported_method",
];

/// Operations that the tester leaves alone, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("follow_execution", "goes on as long as the run does"),
    ("follow_events", "goes on for ever"),
    ("rebuild_stream", "needs a broker, and says 503 without one"),
];

/// A chapter that it leaves alone: all of it answers 501, which is what it is there for.
const LEFT_OUT_TAG: &str = "Not supported";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tester: on the path, or where `scripts/test` puts it.
fn schemathesis() -> PathBuf {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&usual).map(|folder| folder.join("schemathesis"));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")));
    let installed = cache.map(|cache| {
        let folder = cache.join("noetl-tests").join(SCHEMATHESIS);
        folder.join("bin/schemathesis")
    });
    installed
        .into_iter()
        .chain(on_path)
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
            panic!(
                "schemathesis is not installed: run scripts/test, which installs it, or \
                 `pip install -r scripts/api/requirements.txt` into a folder of the PATH"
            )
        })
}

fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}\n{}", String::from_utf8_lossy(&output.stderr))
}

/// A server that wants to see tokens, and a token that opens everything.
async fn closed_server(house: &House) -> (Noetl, String) {
    let first = format!("noetl_first_{}", "0123456789abcdef".repeat(4));
    let mut command = house.command();
    command
        .env_remove("NOETL_DEV")
        .env("NOETL_BOOTSTRAP_TOKEN", &first)
        .env("NOETL_INTERNAL_API_TOKEN", "opens what is internal");
    let server = Noetl::serving(command.args(["server", "--port", "0"]));
    let settings = ClientSettings {
        token: Some(BearerToken::new(first)),
        ..ClientSettings::default()
    };
    let client = Client::new(server.url.as_deref().unwrap(), settings).unwrap();
    let wanted = NewToken {
        name: "tester".into(),
        scopes: Scope::ALL.to_vec(),
        ..NewToken::default()
    };
    let made = client.create_token(&wanted).await.expect("a token");
    (server, made.token.to_string())
}

/// No request that the document allows, and none that it forbids, breaks the server or gets an answer
/// that the document does not tell of.
#[tokio::test]
async fn the_api_is_what_its_document_says() {
    let house = House::on_sqlite();
    let (server, token) = closed_server(&house).await;
    let mut command = Command::new(schemathesis());
    command
        .current_dir(house.folder.path())
        .env("SCHEMATHESIS_HOOKS", root().join("scripts/api/hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The server is on this machine.
        .env("no_proxy", "*")
        .arg("run")
        .arg(root().join("docs/openapi.json"))
        .args(["--url", server.url.as_deref().unwrap()])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--checks", &CHECKS.join(",")])
        .args(["--phases", "examples,coverage,fuzzing,stateful"])
        .args(["--max-examples", CASES])
        .arg("--generation-deterministic")
        .args(["--suppress-health-check", "all", "--request-timeout", "120"])
        .args(["--warnings", "off", "--no-color", "--continue-on-failure"])
        .args(["--exclude-tag", LEFT_OUT_TAG]);
    for (operation, _) in LEFT_OUT {
        command.args(["--exclude-operation-id", operation]);
    }
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let ran = ran.unwrap().expect("schemathesis runs");
    assert!(ran.status.success(), "{}", said(&ran));
    drop(server);
}

#[tokio::test]
async fn the_python_client_does_what_its_page_says() {
    let house = House::on_sqlite();
    let server = house.server();
    let _worker = house.worker(&server, "python");
    let mut command = Command::new("python3");
    command
        .current_dir(root())
        .env("NOETL_SERVER_URL", server.url.as_deref().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The server is on this machine.
        .env("no_proxy", "*")
        .args(["-m", "unittest", "discover", "-s", "clients/python/tests"]);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let ran = ran.unwrap().expect("python3 runs");
    assert!(ran.status.success(), "{}", said(&ran));
}

#[test]
fn the_python_client_is_made_from_the_document() {
    let mut command = Command::new("python3");
    command.arg(root().join("clients/python/generate.py"));
    if std::env::var_os("UPDATE_DOCS").is_none() {
        command.arg("--check");
    }
    let ran = command.output().expect("python3 runs");
    assert!(ran.status.success(), "{}", said(&ran));
}
