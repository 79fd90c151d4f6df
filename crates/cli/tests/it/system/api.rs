//! The HTTP API as external clients use it: Schemathesis with the OpenAPI document, and the Python
//! client.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use noetl_api::Client;
use noetl_api::client::{BearerToken, ClientSettings};
use noetl_api::tokens::CreateTokenRequest;
use noetl_types::Scope;

use crate::system::deployment::TestDeployment;
use crate::system::process::NoetlProcess;

/// Schemathesis version. `scripts/test` installs the same one.
const SCHEMATHESIS_VERSION: &str = "schemathesis-4.32.5";

/// Generated examples per operation, in addition to those that cover its bounds.
const MAX_EXAMPLES: &str = "12";

/// Enabled checks. Acceptance of valid requests is not one of them: a request that the document
/// allows may still be refused, for example for an unknown playbook.
const ENABLED_CHECKS: [&str; 8] = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "ignored_auth", "unsupported_method",
];

/// Operations that are not tested, with the reason.
const EXCLUDED_OPERATIONS: [(&str, &str); 4] = [
    ("follow_execution", "streams until the run ends"),
    ("follow_logs", "streams until the run ends"),
    ("follow_events", "never ends"),
    ("rebuild_stream", "needs a broker, and returns 503 without one"),
];

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Finds Schemathesis in the directory that `scripts/test` installs it to, or on the PATH.
fn find_schemathesis() -> PathBuf {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&search_path).map(|dir| dir.join("schemathesis"));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")));
    let installed = cache.map(|cache| {
        let dir = cache.join("noetl-tests").join(SCHEMATHESIS_VERSION);
        dir.join("bin/schemathesis")
    });
    installed.into_iter().chain(on_path).find(|program| program.is_file()).unwrap_or_else(|| {
        panic!(
            "schemathesis is not installed: run scripts/test, which installs it, or \
                 `pip install -r scripts/api/requirements.txt` into a directory of the PATH"
        )
    })
}

fn command_output(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}\n{}", String::from_utf8_lossy(&output.stderr))
}

/// Starts a server that requires tokens. Returns it with a token that has all scopes.
async fn start_server_with_token(deployment: &TestDeployment) -> (NoetlProcess, String) {
    let first = format!("noetl_first_{}", "0123456789abcdef".repeat(4));
    let mut command = deployment.noetl_command();
    command
        .env_remove("NOETL_DEV")
        .env("NOETL_BOOTSTRAP_TOKEN", &first)
        // Many requests have an invalid token.
        .env("NOETL_AUTH_FAILURES_PER_MINUTE", "0")
        .env("NOETL_INTERNAL_API_TOKEN", "internal-api-token");
    let server = NoetlProcess::start_server(command.args(["server", "--port", "0"]));
    let settings =
        ClientSettings { token: Some(BearerToken::new(first)), ..ClientSettings::default() };
    let client = Client::new(server.url.as_deref().unwrap(), settings).unwrap();
    let request = CreateTokenRequest {
        name: "tester".into(),
        scopes: Scope::ALL.to_vec(),
        ..CreateTokenRequest::default()
    };
    let created = client.create_token(&request).await.expect("a token");
    (server, created.token.to_string())
}

/// Valid and invalid requests cause no server error and no response that the document does not
/// describe.
#[tokio::test]
async fn api_conforms_to_openapi_document() {
    let deployment = TestDeployment::on_sqlite();
    let (server, token) = start_server_with_token(&deployment).await;
    let mut command = Command::new(find_schemathesis());
    command
        .current_dir(deployment.dir.path())
        .env("SCHEMATHESIS_HOOKS", repository_root().join("scripts/api/hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The server is on this machine.
        .env("no_proxy", "*")
        .arg("run")
        .arg(repository_root().join("docs/openapi.json"))
        .args(["--url", server.url.as_deref().unwrap()])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--checks", &ENABLED_CHECKS.join(",")])
        .args(["--phases", "examples,coverage,fuzzing,stateful"])
        .args(["--max-examples", MAX_EXAMPLES])
        .arg("--generation-deterministic")
        .args(["--suppress-health-check", "all", "--request-timeout", "120"])
        .args(["--warnings", "off", "--no-color", "--continue-on-failure"]);
    for (operation, _) in EXCLUDED_OPERATIONS {
        command.args(["--exclude-operation-id", operation]);
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.unwrap().expect("schemathesis runs");
    assert!(output.status.success(), "{}", command_output(&output));
    drop(server);
}

#[tokio::test]
async fn python_client_passes_its_tests() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let _worker = deployment.start_worker(&server, "python");
    let mut command = Command::new("python3");
    command
        .current_dir(repository_root())
        .env("NOETL_SERVER_URL", server.url.as_deref().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The server is on this machine.
        .env("no_proxy", "*")
        .args(["-m", "unittest", "discover", "-s", "clients/python/tests"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.unwrap().expect("python3 runs");
    assert!(output.status.success(), "{}", command_output(&output));
}

#[test]
fn python_client_is_generated_from_openapi() {
    let mut command = Command::new("python3");
    command.arg(repository_root().join("clients/python/generate.py"));
    if std::env::var_os("UPDATE_DOCS").is_none() {
        command.arg("--check");
    }
    let output = command.output().expect("python3 runs");
    assert!(output.status.success(), "{}", command_output(&output));
}
