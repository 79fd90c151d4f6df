//! What `deploy/` names must exist: settings in the table, and shapes as they are meant.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::table::TABLE;

/// Settings of parts that read them elsewhere than in the table, or of the images beside ours.
const ELSEWHERE: [&str; 7] = [
    "POSTGRES_DB",
    "NOETL_UNSAFE_PLAINTEXT",
    "NOETL_TLS_CERT",
    "NOETL_TLS_KEY",
    "NOETL_NATS_URL",
    "NOETL_EVENT_STREAM_ENABLED",
    "NOETL_CONFIG",
];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Every document of the YAML files, with the file that it is in.
fn documents() -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    files(&deploy(), &mut found);
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml");
    let mut documents = Vec::new();
    for path in found.into_iter().filter(is_yaml) {
        let text = fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let json = noetl_playbook::to_json(document);
            let json = json.unwrap_or_else(|| panic!("{} is no YAML", path.display()));
            documents.push((path.clone(), serde_json::to_value(&json).unwrap()));
        }
    }
    documents
}

/// Words that look like settings of ours.
fn settings_in(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_uppercase() || "_0123456789".contains(letter);
    let words = text.split(|letter: char| !is_of_name(letter));
    let prefixes = ["NOETL_", "POSTGRES_", "WORKER_"];
    words
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .map(|word| word.trim_end_matches('_').to_owned())
        .collect()
}

#[test]
fn every_setting_that_is_named_exists() {
    let mut found = Vec::new();
    files(&deploy(), &mut found);
    assert!(found.len() >= 9, "{found:?}");
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for name in settings_in(&text) {
            let is_known = TABLE.iter().any(|setting| setting.facts().name == name);
            assert!(
                is_known || ELSEWHERE.contains(&&*name),
                "{}: there is no setting {name}",
                path.display()
            );
        }
    }
}

#[test]
fn manifests_are_whole() {
    let documents = documents();
    let kinds: BTreeSet<&str> = documents
        .iter()
        .filter_map(|(_, document)| document["kind"].as_str())
        .collect();
    for kind in [
        "Namespace",
        "ConfigMap",
        "Deployment",
        "Service",
        "ScaledObject",
    ] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    for (path, document) in &documents {
        let place = path.display();
        if document["kind"] == "Deployment" {
            let pod = &document["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{place}");
            let container = &pod["containers"][0];
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{place}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{place}");
        }
        if path.ends_with("docker-compose.yaml") {
            for service in ["server", "worker", "system-worker", "postgres", "nats"] {
                assert!(document["services"][service].is_object(), "{service}");
            }
        }
    }
}

/// Only the pool of the platform gets the platform's token.
#[test]
fn workers_of_users_do_not_know_the_internal_token() {
    let text = fs::read_to_string(deploy().join("kubernetes/worker.yaml")).unwrap();
    assert!(!text.contains("NOETL_INTERNAL_API_TOKEN"));
    let text = fs::read_to_string(deploy().join("kubernetes/system-worker.yaml")).unwrap();
    assert!(text.contains("NOETL_INTERNAL_API_TOKEN") && text.contains("value: system"));
    let documents = documents();
    let compose = documents
        .iter()
        .find(|(path, _)| path.ends_with("docker-compose.yaml"));
    let environment = &compose.unwrap().1["services"]["worker"]["environment"];
    assert!(environment.get("NOETL_INTERNAL_API_TOKEN").is_none());
}
