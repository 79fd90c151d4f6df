//! Commands against a TLS server with a self-signed certificate.

use std::process::Command;

use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir};

/// Creates a self-signed certificate for localhost.
fn create_certificate(dir: &TestDir) {
    let output = Command::new("openssl")
        .current_dir(dir.path(""))
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn commands_trust_configured_ca() {
    let dir = TestDir::new("encrypted");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    create_certificate(&dir);
    let token = "sixteen characters and more";
    let start = ["dev", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut dev = isolated_command(&dir, &start);
    dev.env("NOETL_INTERNAL_API_TOKEN", token);
    let mut dev = NoetlProcess::start(dev);
    let line = dev.wait_for_stdout("NoETL listening on https://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    dev.wait_for_stdout("Stop with Ctrl-C");
    let run_with_authority = |args: &[&str], authority: Option<&str>| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command
            .env("NOETL_SERVER_URL", &url)
            .env("NOETL_INTERNAL_API_TOKEN", token)
            .envs(authority.map(|file| ("NOETL_TLS_CA", file)));
        command.output().unwrap().into()
    };
    let run_trusting = |args: &[&str]| run_with_authority(args, Some("cert.pem"));
    let output = run_trusting(&["run", "clean.yaml"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "last"],
        &["worker", "list"],
        &["catalog", "list"],
        &["outbox", "list"],
        &["retention", "plan"],
        &["stream", "status"],
        &["replay", "last"],
        &["replay", "last", "--server", &url],
        &["secret", "list"],
        &["doctor"],
    ] {
        let output = run_trusting(args);
        assert_eq!(output.code, 0, "{args:?}: {}", output.to_snapshot());
    }
    let untrusting = run_with_authority(&["runs", "list"], None);
    assert_ne!(untrusting.code, 0, "{}", untrusting.to_snapshot());
    let missing_file = run_with_authority(&["runs", "list"], Some("nowhere.pem"));
    assert!(missing_file.err.contains("NOETL_TLS_CA"), "{}", missing_file.err);
}
