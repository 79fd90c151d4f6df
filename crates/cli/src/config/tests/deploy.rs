//! Tests that the settings and resources named in `deploy/` exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::table::SETTINGS_TABLE;

/// Names that are not in the settings table: read elsewhere, or settings of other images.
const SETTINGS_OUTSIDE_TABLE: [&str; 8] = [
    // A build argument of the container image.
    "WORKER_IMAGE", "POSTGRES_DB", "NOETL_UNSAFE_PLAINTEXT", "NOETL_TLS_CERT", "NOETL_TLS_KEY",
    "NOETL_NATS_URL", "NOETL_EVENT_STREAM_ENABLED", "NOETL_CONFIG",
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
    for kind in ["Namespace", "ConfigMap", "Deployment", "StatefulSet", "Service", "ScaledObject"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    for service in ["server", "worker", "system-worker", "postgres", "nats"] {
        assert!(compose_services().contains_key(service), "{service}");
    }
}

/// Pods of all manifests, by the label `app`.
fn pods() -> BTreeMap<String, Value> {
    let documents = yaml_documents().into_iter();
    let pods = documents.filter(|(_, document)| {
        matches!(
            document["kind"].as_str(),
            Some("Deployment" | "StatefulSet" | "DaemonSet" | "Job")
        )
    });
    let app = |template: &Value| template["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
    let pods: BTreeMap<_, _> = pods
        .map(|(_, mut document)| document["spec"]["template"].take())
        .map(|mut template| (app(&template), template["spec"].take()))
        .collect();
    assert!(pods.len() >= 4, "{pods:?}");
    pods
}

/// Services of the Compose file, with the merged maps.
fn compose_services() -> BTreeMap<String, Value> {
    let documents = yaml_documents();
    let compose = documents.iter().find(|(path, _)| path.ends_with("docker-compose.yaml"));
    let services = compose.unwrap().1["services"].as_object().unwrap();
    services.iter().map(|(name, service)| (name.clone(), with_merged_maps(service))).collect()
}

/// Resolves `<<`.
fn with_merged_maps(map: &Value) -> Value {
    let mut merged = map.clone();
    let fields = merged.as_object_mut().unwrap();
    if let Some(base) = fields.remove("<<") {
        for (key, value) in with_merged_maps(&base).as_object().unwrap() {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    merged
}

#[test]
fn pods_are_restricted() {
    for (app, pod) in pods() {
        let security = &pod["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{app}");
        assert!(security["runAsUser"].as_u64() > Some(0), "{app}");
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{app}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{app}");
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{app}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{app}");
            assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]), "{app}");
            for limit in ["cpu", "memory", "ephemeral-storage"] {
                assert!(container["resources"]["limits"][limit].is_string(), "{app}: {limit}");
            }
        }
    }
    for (name, service) in compose_services() {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{name}");
        let options = serde_json::json!(["no-new-privileges:true"]);
        assert_eq!(service["security_opt"], options, "{name}");
        let user = service["user"].as_str().unwrap_or_default();
        assert!(!user.is_empty() && !user.starts_with("0:") && user != "root", "{name}: {user}");
        for limit in ["mem_limit", "pids_limit"] {
            assert!(!service[limit].is_null(), "{name}: {limit}");
        }
    }
}

/// Images are named by digest or by exact version, and the version of NoETL is the current one.
#[test]
fn images_have_exact_versions() {
    let mut images: BTreeSet<String> = BTreeSet::new();
    for pod in pods().values() {
        let containers = pod["containers"].as_array().unwrap().iter();
        images.extend(containers.map(|container| container["image"].as_str().unwrap().to_owned()));
    }
    let services = compose_services();
    images.extend(services.values().map(|service| service["image"].as_str().unwrap().to_owned()));
    let dockerfile = fs::read_to_string(deploy_dir().join("Dockerfile")).unwrap();
    let arguments = dockerfile.lines().filter_map(|line| line.strip_prefix("ARG "));
    let bases: BTreeMap<&str, &str> = arguments.filter_map(|line| line.split_once('=')).collect();
    for line in dockerfile.lines().filter(|line| line.starts_with("FROM ")) {
        let base = line.split(['{', '}']).nth(1).unwrap_or_default();
        assert!(bases.contains_key(base), "{line}");
    }
    // Distroless images have no versions, so this one can only be pinned by digest.
    images.extend(
        bases.values().filter(|image| !image.contains("distroless")).map(|image| (*image).into()),
    );
    assert!(images.len() >= 5, "{images:?}");
    for image in images {
        let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
        let is_version = tag.split('-').next().is_some_and(|version| {
            version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.')
        });
        assert!(is_version || image.contains("@sha256:"), "{image}");
        assert!(!image.starts_with("noetl:") || tag == env!("CARGO_PKG_VERSION"), "{image}");
    }
}

/// Names of the variables that a text inserts as `${NAME…}`, with their defaults.
fn interpolations(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let bodies = text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    bodies.map(|body| body.split_once(':').unwrap_or((body, "")))
}

#[test]
fn secrets_have_no_defaults() {
    let example = fs::read_to_string(deploy_dir().join("secrets.example.env")).unwrap();
    let lines = example.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let secrets: BTreeSet<&str> = lines.map(|line| line.strip_suffix('=').expect(line)).collect();
    let compose = fs::read_to_string(deploy_dir().join("docker-compose.yaml")).unwrap();
    for (name, default) in interpolations(&compose) {
        assert!(secrets.contains(name), "{name}");
        // The server creates the token of the workers after its start.
        assert!(default.starts_with('?') || (name == "NOETL_TOKEN" && default == "-"), "{name}");
    }
    for (app, pod) in pods() {
        for variable in pod["containers"][0]["env"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            let key = &variable["valueFrom"]["secretKeyRef"]["key"];
            if let Some(key) = key.as_str() {
                assert!(secrets.contains(key), "{app}: {key}");
            }
            let is_secret = ["PASSWORD", "TOKEN", "KEY"].iter().any(|part| name.contains(part));
            assert!(!is_secret || key.is_string(), "{app}: {name} is not from a secret");
        }
    }
}

/// Every client of NATS has a user of its own, and user code has none.
#[test]
fn nats_clients_authenticate() {
    let accounts = fs::read_to_string(deploy_dir().join("nats/accounts.conf")).unwrap();
    assert!(!accounts.contains("no_auth_user"));
    let has_user = |user: &str| accounts.contains(&format!("user: {user}"));
    let mut users = BTreeSet::new();
    for (name, service) in compose_services() {
        let environment = &service["environment"];
        if !environment["NOETL_NATS_URL"].is_null() {
            assert!(environment["NATS_PASSWORD"].is_string(), "{name}");
            users.insert(environment["NATS_USER"].as_str().unwrap().to_owned());
        }
    }
    for (app, user) in [("noetl-server", "noetl-server"), ("noetl-system-worker", "noetl-system")] {
        let pod = &pods()[app];
        let variables = pod["containers"][0]["env"].as_array().unwrap();
        let find = |name: &str| variables.iter().find(|variable| variable["name"] == name).unwrap();
        assert_eq!(find("NATS_USER")["value"], user);
        assert!(find("NATS_PASSWORD")["valueFrom"]["secretKeyRef"]["key"].is_string());
    }
    assert!(users.len() == 2 && users.iter().all(|user| has_user(user)), "{users:?}");
    let worker = fs::read_to_string(deploy_dir().join("kubernetes/worker.yaml")).unwrap();
    assert!(!worker.contains("NATS"));
    let worker = &compose_services()["worker"];
    assert_eq!(worker["networks"], serde_json::json!(["api"]));
}

/// Everything is denied that no policy allows, and every pod has a policy.
#[test]
fn network_policies_cover_every_pod() {
    let documents = yaml_documents();
    let policies = documents.iter().filter(|(_, document)| document["kind"] == "NetworkPolicy");
    let specs: Vec<&Value> = policies.map(|(_, document)| &document["spec"]).collect();
    let directions = serde_json::json!(["Ingress", "Egress"]);
    let denies_all = |spec: &&Value| {
        spec["podSelector"] == serde_json::json!({})
            && spec["policyTypes"] == directions
            && spec["ingress"].is_null()
            && spec["egress"].is_null()
    };
    assert_eq!(specs.iter().filter(|spec| denies_all(spec)).count(), 1);
    for app in pods().keys() {
        let selects = |spec: &&Value| spec["podSelector"]["matchLabels"]["app"] == app.as_str();
        let spec = specs.iter().find(|spec| selects(spec)).expect(app);
        assert_eq!(spec["policyTypes"], directions, "{app}");
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
