use std::collections::BTreeSet;

use super::*;
use crate::json::{self, Json};

/// Clients depend on these facts, so a changed snapshot is a change of the API.
#[test]
fn error_code_table_is_stable() {
    let rows: Vec<String> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let (status, title, retry, effect) = code.error_properties();
            format!("{status} {code:<20} retry {retry:?}, effect {effect:?}: {title}")
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn codes_are_distinct_and_round_trip() {
    let names: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), ErrorCode::ALL.len());
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::parse(code.as_str()), Ok(*code));
    }
}

#[test]
fn retry_after_implies_retryable() {
    for code in ErrorCode::ALL {
        assert!(!code.has_retry_after() || code.is_retryable(), "{code}");
    }
    assert!(ErrorCode::InFlight.has_retry_after());
    assert!(!ErrorCode::OwnedByOther.has_retry_after());
}

#[test]
fn client_errors_have_no_side_effects() {
    for code in ErrorCode::ALL {
        assert!(code.http_status() >= 500 || code.has_no_side_effects(), "{code}");
    }
}

#[test]
fn pages_match_code_facts() {
    for code in ErrorCode::ALL {
        let page = code.page();
        let mut lines = page.lines();
        assert_eq!(lines.next(), Some(format!("# {code}").as_str()));
        let facts = lines.nth(1).unwrap();
        assert!(
            facts.starts_with(&format!("{}. **{} ", code.title(), code.http_status())),
            "{code}"
        );
        assert_eq!(facts.contains("can succeed later"), code.is_retryable(), "{code}");
        assert_eq!(facts.contains("nothing was changed"), code.has_no_side_effects(), "{code}");
        for section in ["## Why it happens", "## What to do", "## Example"] {
            assert!(page.contains(section), "{code} lacks {section}");
        }
    }
}

#[test]
fn page_examples_match_code_facts() {
    for code in ErrorCode::ALL {
        let (_, rest) = code.page().split_once("```json\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let problem = json::parse(example.as_bytes()).unwrap();
        let field = |name| problem.get(name).and_then(Json::as_str);
        assert_eq!(field("code"), Some(code.as_str()));
        assert_eq!(field("type"), Some(code.type_uri()));
        assert_eq!(field("title"), Some(code.title()));
        assert_eq!(field("error"), field("detail"));
        assert!(field("request_id").is_some());
        assert_eq!(problem.get("status").and_then(Json::as_u64), Some(code.http_status().into()));
    }
}

#[test]
fn reject_codes_are_stable() {
    let names: Vec<&str> = RejectCode::ALL.iter().map(|code| code.as_str()).collect();
    insta::assert_snapshot!(names.join(" "), @"missing_execution_id bad_value id_in_future id_conflict tenant_mismatch retention_dropped");
    for code in RejectCode::ALL {
        assert_eq!(RejectCode::parse(code.as_str()), Ok(*code));
    }
}
