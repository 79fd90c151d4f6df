//! The playbook corpus: valid playbooks with every construct, and invalid ones with common
//! mistakes.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use noetl_playbook::{CheckOptions, Code, Document, Severity, check, json_schema, to_yaml};

fn read_corpus(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("corpus").map(|entry| entry.expect("entry").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{} is small", folder.display());
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("text");
            (path, text)
        })
        .collect()
}

fn list_findings(text: &str) -> Vec<String> {
    check(text, &CheckOptions::default())
        .diagnostics
        .iter()
        .map(|diagnostic| format!("{}@{}:{}", diagnostic.code, diagnostic.line, diagnostic.column))
        .collect()
}

#[test]
fn good_playbooks_have_no_findings() {
    for (path, text) in read_corpus("good") {
        let checked = check(&text, &CheckOptions::default());
        let legacy =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("legacy_"));
        let findings: Vec<_> = checked
            .diagnostics
            .iter()
            .filter(|diagnostic| {
                !(legacy && matches!(diagnostic.code, Code::NP016 | Code::NP018 | Code::NP019))
            })
            .map(|diagnostic| {
                format!(
                    "{}@{}:{} {}",
                    diagnostic.code, diagnostic.line, diagnostic.column, diagnostic.message
                )
            })
            .collect();
        assert!(findings.is_empty(), "{}: {findings:#?}", path.display());
        assert!(checked.document.is_some(), "{}", path.display());
    }
}

#[test]
fn bad_playbooks_have_expected_findings() {
    for (path, text) in read_corpus("bad") {
        let expected: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# expect:"))
            .flat_map(str::split_whitespace)
            .collect();
        assert!(!expected.is_empty(), "{} has no '# expect:' line", path.display());
        assert_eq!(list_findings(&text), expected, "{}", path.display());
    }
}

#[test]
fn printed_playbook_parses_to_same_model() {
    for (path, text) in read_corpus("good") {
        let Some(document) = check(&text, &CheckOptions::default()).document else {
            continue;
        };
        let Some(printed) = to_yaml(&document) else {
            continue;
        };
        let again = check(&printed, &CheckOptions::default());
        assert!(
            again.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error),
            "{}:\n{printed}\n{:#?}",
            path.display(),
            again.diagnostics
        );
        if again.document.as_ref() != Some(&document) {
            let (original, reparsed) = (format!("{document:#?}"), format!("{:#?}", again.document));
            let lines = |text: &str| {
                text.lines()
                    .map(|line| line.trim().to_owned())
                    .filter(|line| !line.starts_with("start:") && !line.starts_with("end:"))
                    .collect::<Vec<_>>()
            };
            let (original, reparsed) = (lines(&original), lines(&reparsed));
            let position =
                original.iter().zip(&reparsed[1..]).position(|(a, b)| a != b).unwrap_or_default();
            panic!(
                "{}: {:#?} became {:#?} in\n{printed}",
                path.display(),
                &original[position.saturating_sub(12)..position + 4],
                &reparsed[position.saturating_sub(11)..position + 5]
            );
        }
        assert_eq!(
            to_yaml(&document),
            again.document.as_ref().and_then(to_yaml),
            "{}",
            path.display()
        );
    }
}

#[test]
fn good_playbooks_match_json_schema() {
    let schema = jsonschema::validator_for(&json_schema()).expect("the schema is a schema");
    for (path, text) in read_corpus("good") {
        let document = check(&text, &CheckOptions::default()).document;
        if !matches!(document, Some(Document::Playbook(_))) {
            continue;
        }
        let json = noetl_playbook::to_json(&text).expect("YAML");
        let value = serde_json::to_value(&json).expect("JSON");
        let errors: Vec<String> = schema
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

/// Earlier releases accept the common keys of a task under `spec` too, with a lower priority.
#[test]
fn spec_of_task_may_hold_common_keys() {
    let playbook = |tool: &str| {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: p }}\n\
             workflow:\n  - step: s\n    tool: {tool}\n"
        );
        let checked = check(&text, &CheckOptions::default());
        assert_eq!(checked.diagnostics, [], "{tool}");
        checked.document.expect("document")
    };
    let flat = playbook(
        "{ kind: python, auth: db, input: { a: 1, b: 2 }, set: { ctx.x: 1 }, libs: [json], code: 'a' }",
    );
    let nested = playbook(
        "{ kind: python, input: { a: 1 }, spec: { auth: db, input: { a: 9, b: 2 }, \
         set: { ctx.x: 1 }, libs: [json], code: 'a' } }",
    );
    assert_eq!(flat, nested);
    let own = playbook("{ kind: python, auth: db, spec: { auth: other, code: 'a' } }");
    assert_eq!(own, playbook("{ kind: python, auth: db, code: 'a' }"));
}
