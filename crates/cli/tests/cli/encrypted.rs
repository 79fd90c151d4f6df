//! Commands against a server whose certificate only the user vouches for.

use std::process::Command;

use crate::process::Process;
use crate::run::at_home;
use crate::support::{CLEAN, Folder, Ran};

/// Makes a certificate for this machine that signs itself.
fn certificate(folder: &Folder) {
    let made = Command::new("openssl")
        .current_dir(folder.path(""))
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{said}");
}

#[test]
fn every_command_trusts_whom_the_user_names() {
    let folder = Folder::new("encrypted");
    folder.write("clean.yaml", CLEAN);
    certificate(&folder);
    let token = "sixteen characters and more";
    let start = [
        "dev",
        "--port",
        "0",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "key.pem",
    ];
    let mut dev = at_home(&folder, &start);
    dev.env("NOETL_INTERNAL_API_TOKEN", token);
    let mut dev = Process::start(dev);
    let line = dev.says("NoETL listening on https://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    dev.says("Stop with Ctrl-C");
    let ask = |args: &[&str], authority: Option<&str>| -> Ran {
        let mut command = at_home(&folder, args);
        command
            .env("NOETL_SERVER_URL", &url)
            .env("NOETL_INTERNAL_API_TOKEN", token)
            .envs(authority.map(|file| ("NOETL_TLS_CA", file)));
        command.output().unwrap().into()
    };
    let trusting = |args: &[&str]| ask(args, Some("cert.pem"));
    let ran = trusting(&["run", "clean.yaml"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
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
        let ran = trusting(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
    }
    let stranger = ask(&["runs", "list"], None);
    assert_ne!(stranger.code, 0, "{}", stranger.shown());
    let nowhere = ask(&["runs", "list"], Some("nowhere.pem"));
    assert!(nowhere.err.contains("NOETL_TLS_CA"), "{}", nowhere.err);
}
