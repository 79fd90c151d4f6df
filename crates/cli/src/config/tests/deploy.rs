//! Tests that the settings and resources named in `deploy/` exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::table::SETTINGS_TABLE;

/// Names that are not in the settings table: read elsewhere, or settings of other images.
const SETTINGS_OUTSIDE_TABLE: [&str; 7] = [
    "POSTGRES_DB",
    "NOETL_UNSAFE_PLAINTEXT",
    "NOETL_TLS_CERT",
    "NOETL_TLS_KEY",
    "NOETL_NATS_URL",
    "NOETL_EVENT_STREAM_ENABLED",
    "NOETL_CONFIG",
];

fn deploy_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn collect_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// All documents of the YAML files, with their files.
fn yaml_documents() -> Vec<(PathBuf, Value)> {
    let mut files = Vec::new();
    collect_files(&deploy_dir(), &mut files);
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    let mut documents = Vec::new();
    for path in files.into_iter().filter(is_yaml) {
        let text = fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let json = noetl_playbook::to_json(document);
            let json = json.unwrap_or_else(|| panic!("{} is not YAML", path.display()));
            documents.push((path.clone(), serde_json::to_value(&json).unwrap()));
        }
    }
    documents
}

/// Names in a text that have the prefix of a setting.
fn settings_in(text: &str) -> BTreeSet<String> {
    let is_name_char = |c: char| c.is_ascii_uppercase() || "_0123456789".contains(c);
    let names = text.split(|c: char| !is_name_char(c));
    let prefixes = ["NOETL_", "POSTGRES_", "WORKER_"];
    names
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|name| name.trim_end_matches('_').to_owned())
        .collect()
}

#[test]
fn deploy_settings_exist() {
    let mut files = Vec::new();
    collect_files(&deploy_dir(), &mut files);
    assert!(files.len() >= 9, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for name in settings_in(&text) {
            let is_known = SETTINGS_TABLE.iter().any(|setting| setting.info().name == name);
            assert!(
                is_known || SETTINGS_OUTSIDE_TABLE.contains(&&*name),
                "{}: there is no setting {name}",
                path.display()
            );
        }
    }
}

#[test]
fn manifests_are_complete() {
    let documents = yaml_documents();
    let kinds: BTreeSet<&str> =
        documents.iter().filter_map(|(_, document)| document["kind"].as_str()).collect();
    for kind in ["Namespace", "ConfigMap", "Deployment", "Service", "ScaledObject"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    for (path, document) in &documents {
        let file = path.display();
        if document["kind"] == "Deployment" {
            let pod = &document["spec"]["template"]["spec"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{file}");
            let container = &pod["containers"][0];
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{file}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{file}");
        }
        if path.ends_with("docker-compose.yaml") {
            for service in ["server", "worker", "system-worker", "postgres", "nats"] {
                assert!(document["services"][service].is_object(), "{service}");
            }
        }
    }
}

/// Only workers of the pool `system` get the token of the internal API.
#[test]
fn user_workers_lack_internal_token() {
    let text = fs::read_to_string(deploy_dir().join("kubernetes/worker.yaml")).unwrap();
    assert!(!text.contains("NOETL_INTERNAL_API_TOKEN"));
    let text = fs::read_to_string(deploy_dir().join("kubernetes/system-worker.yaml")).unwrap();
    assert!(text.contains("NOETL_INTERNAL_API_TOKEN") && text.contains("value: system"));
    let documents = yaml_documents();
    let compose = documents.iter().find(|(path, _)| path.ends_with("docker-compose.yaml"));
    let environment = &compose.unwrap().1["services"]["worker"]["environment"];
    assert!(environment.get("NOETL_INTERNAL_API_TOKEN").is_none());
}
