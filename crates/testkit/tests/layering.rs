//! Dependencies between the rooms of the house point one way.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What each crate may use of the workspace when it is built for users. Development dependencies are
/// free, except for the oracle's: its worth is that it does not know the engine.
const MAY_USE: &[(&str, &[&str])] = &[
    ("noetl-types", &[]),
    ("noetl-playbook", &["noetl-types"]),
    ("noetl-engine", &["noetl-types", "noetl-playbook"]),
    ("noetl-oracle", &["noetl-types", "noetl-playbook"]),
    ("noetl-tls", &[]),
    ("noetl-store", &["noetl-types", "noetl-tls"]),
    ("noetl-bus", &["noetl-types"]),
    ("noetl-api", &["noetl-types"]),
    (
        "noetl-tools",
        &["noetl-types", "noetl-playbook", "noetl-tls"],
    ),
    (
        "noetl-worker",
        &["noetl-types", "noetl-playbook", "noetl-api", "noetl-tools"],
    ),
    (
        "noetl-server",
        &[
            "noetl-types",
            "noetl-playbook",
            "noetl-engine",
            "noetl-store",
            "noetl-bus",
            "noetl-api",
        ],
    ),
    (
        "noetl-testkit",
        &["noetl-types", "noetl-playbook", "noetl-engine"],
    ),
    (
        "noetl-cli",
        &[
            "noetl-types",
            "noetl-playbook",
            "noetl-engine",
            "noetl-store",
            "noetl-api",
            "noetl-tools",
            "noetl-worker",
            "noetl-server",
        ],
    ),
    (
        "noetl-bench",
        &[
            "noetl-types",
            "noetl-playbook",
            "noetl-engine",
            "noetl-store",
            "noetl-bus",
            "noetl-api",
            "noetl-tools",
            "noetl-worker",
            "noetl-server",
            "noetl-testkit",
            "noetl-cli",
        ],
    ),
];

/// Crates that a pure room must not reach by any path.
const IMPURE: &[&str] = &[
    "tokio",
    "rand",
    "chrono",
    "reqwest",
    "rusqlite",
    "tokio-postgres",
    "async-nats",
];
const PURE: &[&str] = &["noetl-types", "noetl-playbook", "noetl-engine"];

fn tree(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--package",
            package,
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--offline",
            "--no-deps",
            "--format-version",
            "1",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let metadata = metadata();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no line in MAY_USE"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("name");
            let for_users = dependency["kind"].is_null();
            if used.starts_with("noetl-") && (for_users || name == "noetl-oracle") {
                assert!(allowed.contains(&used), "{name} must not use {used}");
            }
        }
    }
}

#[test]
fn pure_rooms_reach_nothing_impure() {
    for package in PURE {
        let reached = tree(package);
        for impure in IMPURE {
            assert!(!reached.contains(*impure), "{package} reaches {impure}");
        }
    }
}
