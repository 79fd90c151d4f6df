//! Dependencies between the crates of the workspace.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Workspace crates that each crate may use in its normal dependencies. Development dependencies
/// are not restricted, except for those of the oracle: it must be independent of the engine.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("noetl-types", &[]),
    ("noetl-playbook", &["noetl-types"]),
    ("noetl-engine", &["noetl-types", "noetl-playbook"]),
    ("noetl-oracle", &["noetl-types", "noetl-playbook"]),
    ("noetl-tls", &[]),
    ("noetl-store", &["noetl-types", "noetl-tls"]),
    ("noetl-store-testing", &["noetl-types", "noetl-store", "noetl-testkit"]),
    ("noetl-messaging", &["noetl-types"]),
    ("noetl-api", &["noetl-types"]),
    ("noetl-tools", &["noetl-types", "noetl-playbook", "noetl-tls"]),
    ("noetl-worker", &["noetl-types", "noetl-playbook", "noetl-api", "noetl-tools"]),
    (
        "noetl-server",
        &[
            "noetl-types", "noetl-playbook", "noetl-engine", "noetl-store", "noetl-messaging",
            "noetl-api",
        ],
    ),
    ("noetl-testkit", &["noetl-types", "noetl-playbook", "noetl-engine"]),
    (
        "noetl-cli",
        &[
            "noetl-types", "noetl-playbook", "noetl-engine", "noetl-store", "noetl-api",
            "noetl-tools", "noetl-worker", "noetl-server",
        ],
    ),
    (
        "noetl-bench",
        &[
            "noetl-types", "noetl-playbook", "noetl-engine", "noetl-store", "noetl-messaging",
            "noetl-api", "noetl-tools", "noetl-worker", "noetl-server", "noetl-testkit",
            "noetl-cli",
        ],
    ),
];

/// Crates that a pure crate must not depend on, even transitively.
const IMPURE_CRATES: &[&str] =
    &["tokio", "rand", "chrono", "reqwest", "rusqlite", "tokio-postgres", "async-nats"];
const PURE_CRATES: &[&str] = &["noetl-types", "noetl-playbook", "noetl-engine"];

fn dependency_tree(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package", package])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn cargo_metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

#[test]
fn crates_use_only_allowed_dependencies() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED_DEPENDENCIES.iter().copied().collect();
    let metadata = cargo_metadata();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no entry in ALLOWED_DEPENDENCIES"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("name");
            let is_normal = dependency["kind"].is_null();
            if used.starts_with("noetl-") && (is_normal || name == "noetl-oracle") {
                assert!(allowed.contains(&used), "{name} must not use {used}");
            }
        }
    }
}

#[test]
fn pure_crates_have_no_impure_dependencies() {
    for package in PURE_CRATES {
        let dependencies = dependency_tree(package);
        for impure in IMPURE_CRATES {
            assert!(!dependencies.contains(*impure), "{package} depends on {impure}");
        }
    }
}
