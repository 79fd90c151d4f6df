//! `noetl explain` and `noetl schema`

use crate::cli::support::run_noetl;

#[test]
fn prints_markdown_without_terminal() {
    let output = run_noetl(&["explain", "NP201"]);
    assert_eq!((output.code, output.out.as_str()), (0, noetl_playbook::Code::NP201.page()));
    assert_eq!(output.out, run_noetl(&["explain", "np201", "--raw", "--color", "always"]).out);
}

#[test]
fn renders_page_with_forced_colour() {
    let output = run_noetl(&["explain", "NP201", "--color", "always"]);
    assert!(output.out.starts_with("\u{1b}[1m"), "{}", output.out.escape_debug());
    assert!(!output.out.contains('`'), "{}", output.out);
}

#[test]
fn api_errors_have_pages() {
    let output = run_noetl(&["explain", "NOT_FOUND"]);
    assert_eq!((output.code, output.out.as_str()), (0, noetl_types::ErrorCode::NotFound.page()));
}

#[test]
fn unknown_code_gets_suggestions() {
    insta::assert_snapshot!(run_noetl(&["explain", "NP291"]).to_snapshot(), @r"
    ──── stderr
    error: there is no code 'NP291'
      help: did you mean NP201?
    ──── exit 3
    ");
    insta::assert_snapshot!(run_noetl(&["explain", "cycle"]).to_snapshot(), @r"
    ──── stderr
    error: there is no code 'cycle'
      help: did you mean NP204?
    ──── exit 3
    ");
    insta::assert_snapshot!(run_noetl(&["explain", "rubbish"]).to_snapshot(), @r"
    ──── stderr
    error: there is no code 'rubbish'
      help: list every code with: noetl explain
    ──── exit 3
    ");
}

#[test]
fn lists_all_codes_without_argument() {
    let output = run_noetl(&["explain"]);
    let codes: Vec<&str> = output.out.lines().filter_map(|line| line.split(' ').next()).collect();
    for code in noetl_playbook::Code::ALL {
        assert!(codes.contains(&code.as_str()), "{code} is not listed");
    }
    for code in noetl_types::ErrorCode::ALL {
        assert!(codes.contains(&code.as_str()), "{code} is not listed");
    }
}

#[test]
fn every_listed_code_has_a_page() {
    for line in run_noetl(&["explain"]).out.lines().filter(|line| line.contains("  ")) {
        let code = line.split(' ').next().unwrap();
        assert_eq!(run_noetl(&["explain", code]).code, 0, "{code}");
    }
}

#[test]
fn schema_is_json_schema() {
    let output = run_noetl(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in ["apiVersion", "kind", "metadata"] {
        assert!(schema["properties"][key].is_object(), "the schema lacks {key}");
    }
    assert_eq!(run_noetl(&["schema", "playbok"]).code, 2);
}
