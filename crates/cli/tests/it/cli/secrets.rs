//! A secret passes through tools, errors and retries, and is redacted everywhere.

use std::fmt::Write as _;
use std::fs;

use noetl_cli::CommandExit;

use crate::cli::client_commands::{TestServer, mask_client_output};

const CANARY_SECRET: &str = "canary-sings-8151";
/// Secret in base64, as printed by a shell.
const CANARY_BASE64: &str = "Y2FuYXJ5LXNpbmdzLTgxNTE";

const LEAKY_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: careless, path: demo/careless }
keychain:
  - { name: api, kind: bearer, auth: api_main }
workflow:
  - step: tells
    tool:
      kind: shell
      command: 'printf %s {{ keychain.api.token }}; printf %s {{ keychain.api.token }} | base64'
      set: { ctx.kept: '{{ keychain.api.token }}' }
    next: { arcs: [{ step: makes }] }
  - step: makes
    tool: { kind: noop, result: { loud: '{{ keychain.api.token | upper }}' } }
    next: { arcs: [{ step: fails }] }
  - step: fails
    tool:
      kind: python
      input: { token: '{{ keychain.api.token }}' }
      code: 'raise ValueError(f\"cannot log in with {token}\")'
      spec: { policy: { rules: [{ when: '{{ output.status == \"error\" }}', then: { do: retry, attempts: 2, delay: 0.01 } }] } }
    next: { arcs: [{ step: ends, when: '{{ event.name == \"call.error\" }}' }] }
  - step: ends
    tool: { kind: noop, result: '{{ ctx.kept }}' }
";

#[test]
fn secret_is_redacted_everywhere() {
    let server = TestServer::new("secrets");
    server.dir.write("careless.yaml", LEAKY_PLAYBOOK);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let (exit, out, err) = server.run_on_terminal(&set, CANARY_SECRET);
    assert_eq!(exit, CommandExit::Ok, "{err}");
    let listed = server.run_ok(&["secret", "list"]);
    assert!(listed.contains("\napi_main  bearer  "), "{listed}");
    server.run_ok(&["catalog", "register", "careless.yaml"]);
    let output = server.run_client(&["exec", "demo/careless", "--wait", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let outputs = [
        out,
        err,
        listed,
        output.to_snapshot(),
        server.run_ok(&["runs", "events", "last", "-o", "jsonl"]),
        server.run_ok(&["runs", "show", "last"]),
        server.run_ok(&["runs", "logs", "last"]),
        server.run_ok(&["runs", "explain", "last"]),
    ];
    for text in &outputs {
        assert!(!text.contains(CANARY_SECRET) && !text.contains(CANARY_BASE64), "{text}");
        assert!(!text.contains(&CANARY_SECRET.to_uppercase()), "{text}");
    }
    // The tools received the secret: their output was redacted.
    assert!(outputs[4].matches("[REDACTED]").count() >= 4, "{}", outputs[4]);
    for file in fs::read_dir(server.dir.path("data")).unwrap() {
        let path = file.unwrap().path();
        // The socket contains no data.
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for secret in [CANARY_SECRET, CANARY_BASE64, &CANARY_SECRET.to_uppercase()] {
            let is_leaked = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_leaked, "{} contains {secret}", path.display());
        }
    }
    assert_eq!(server.run_client(&["secret", "rm", "api_main", "--yes"]).code, 0);
    assert_eq!(server.run_client(&["secret", "rm", "api_main", "--yes"]).code, 3);
}

const SECRET_READING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
keychain:
  - { name: api, kind: bearer, auth: api_main }
workflow:
  - step: reads
    tool: { kind: noop, result: '{{ keychain.api.token | length }}' }
";

#[test]
fn secret_operations_are_audited() {
    let token = ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");
    let server = TestServer::with_env("secrets_audit", &[token]);
    server.dir.write("names.yaml", SECRET_READING_PLAYBOOK);
    let set = ["secret", "set", "api_main", "--type", "bearer"];
    let (exit, _, err) = server.run_on_terminal(&set, CANARY_SECRET);
    assert_eq!(exit, CommandExit::Ok, "{err}");
    server.run_ok(&["catalog", "register", "names.yaml"]);
    let output = server.run_client(&["exec", "demo/names", "--wait", "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    server.run_ok(&["secret", "rm", "api_main", "--yes"]);
    assert_eq!(server.run_client(&["secret", "rm", "api_main", "--yes"]).code, 3);

    let lines = server.run_ok(&["secret", "audit", "-o", "jsonl"]);
    let rows: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let operations: Vec<_> = rows.iter().map(|row| row["operation"].clone()).collect();
    assert_eq!(operations, ["delete", "delete", "issue", "set"]);
    let (worker, run) = (&rows[2]["worker_id"], &rows[2]["execution_id"]);
    let (worker, run) = (worker.as_str().unwrap(), run.to_string());
    let mut transcript = String::new();
    for args in [
        &["secret", "audit"][..],
        &["secret", "audit", "--run", &run],
        &["secret", "audit", "api_main", "--since", "1h", "-n", "1"],
        &["secret", "audit", "api_main", "--until", "2020-01-01T00:00:00Z"],
        &["secret", "audit", "nobody"],
        &["secret", "audit", "--since", "soon"],
        &["secret", "audit", "--limit", "0"],
    ] {
        let output = server.run_client(args).to_snapshot();
        assert!(!output.contains(CANARY_SECRET), "{output}");
        let output = mask_client_output(
            &server,
            &output.replace(worker, "w1").replace(&run, "7000000000000000001"),
        );
        writeln!(transcript, "$ noetl {}\n{output}", args.join(" ")).unwrap();
    }
    insta::assert_snapshot!(transcript.replace(&run, "ID"));
    let wide = server.run_ok(&["secret", "audit", "-o", "wide"]);
    assert!(wide.contains("TENANT") && wide.contains("127.0.0.1"), "{wide}");
    // Without the operator's token, access to the audit log is denied.
    let denied = server.without_env().run_client(&["secret", "audit"]);
    assert_eq!(denied.code, 6, "{}", denied.to_snapshot());
    let help = "set NOETL_INTERNAL_API_TOKEN";
    assert!(denied.err.contains(help), "{}", denied.err);
}
