//! The corpus: playbooks that use every construct of the language, and playbooks with the mistakes
//! that people make.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use noetl_playbook::{
    CheckOptions, Code, Document, SchemaOf, Severity, check, json_schema, to_yaml,
};

fn corpus(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../testkit/corpus")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("corpus")
        .map(|entry| entry.expect("entry").path())
        .collect();
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

fn findings(text: &str) -> Vec<String> {
    check(text, &CheckOptions::default())
        .diagnostics
        .iter()
        .map(|found| format!("{}@{}:{}", found.code, found.line, found.column))
        .collect()
}

#[test]
fn good_playbooks_are_clean() {
    for (path, text) in corpus("good") {
        let checked = check(&text, &CheckOptions::default());
        let legacy = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("legacy_"));
        let found: Vec<_> = checked
            .diagnostics
            .iter()
            .filter(|found| {
                !(legacy && matches!(found.code, Code::NP016 | Code::NP018 | Code::NP019))
            })
            .map(|found| {
                format!(
                    "{}@{}:{} {}",
                    found.code, found.line, found.column, found.message
                )
            })
            .collect();
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        assert!(checked.document.is_some(), "{}", path.display());
    }
}

#[test]
fn bad_playbooks_are_reported_in_full_and_in_order() {
    for (path, text) in corpus("bad") {
        let expected: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# expect:"))
            .flat_map(str::split_whitespace)
            .collect();
        assert!(
            !expected.is_empty(),
            "{} says what it expects",
            path.display()
        );
        assert_eq!(findings(&text), expected, "{}", path.display());
    }
}

#[test]
fn printing_and_reading_back_gives_the_same_model() {
    for (path, text) in corpus("good") {
        let Some(document) = check(&text, &CheckOptions::default()).document else {
            continue;
        };
        let Some(printed) = to_yaml(&document) else {
            continue;
        };
        let again = check(&printed, &CheckOptions::default());
        assert!(
            again
                .diagnostics
                .iter()
                .all(|found| found.severity != Severity::Error),
            "{}:\n{printed}\n{:#?}",
            path.display(),
            again.diagnostics
        );
        if again.document.as_ref() != Some(&document) {
            let (one, two) = (format!("{document:#?}"), format!("{:#?}", again.document));
            let words = |text: &str| {
                text.lines()
                    .map(|line| line.trim().to_owned())
                    .filter(|line| !line.starts_with("start:") && !line.starts_with("end:"))
                    .collect::<Vec<_>>()
            };
            let (one, two) = (words(&one), words(&two));
            let at = one
                .iter()
                .zip(&two[1..])
                .position(|(a, b)| a != b)
                .unwrap_or_default();
            panic!(
                "{}: {:#?} became {:#?} in\n{printed}",
                path.display(),
                &one[at.saturating_sub(12)..at + 4],
                &two[at.saturating_sub(11)..at + 5]
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
fn good_playbooks_fit_the_schema() {
    let validator =
        |of| jsonschema::validator_for(&json_schema(of)).expect("the schema is a schema");
    let playbook = validator(SchemaOf::Playbook);
    let subscription = validator(SchemaOf::Subscription);
    let schedule = validator(SchemaOf::Schedule);
    for (path, text) in corpus("good") {
        let document = check(&text, &CheckOptions::default()).document;
        let schema = match document {
            Some(Document::Playbook(_)) => &playbook,
            Some(Document::Subscription(_)) => &subscription,
            Some(Document::Schedule(_)) => &schedule,
            Some(Document::Other(_)) | None => continue,
        };
        let json = noetl_playbook::to_json(&text).expect("YAML");
        let value = serde_json::to_value(&json).expect("JSON");
        let errors: Vec<String> = schema
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}
