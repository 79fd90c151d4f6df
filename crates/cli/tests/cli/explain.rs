//! `noetl explain` and `noetl schema`

use crate::support::run;

#[test]
fn a_page_is_markdown_where_no_terminal_reads_it() {
    let ran = run(&["explain", "NP201"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, noetl_playbook::Code::NP201.page())
    );
    assert_eq!(
        ran.out,
        run(&["explain", "np201", "--raw", "--color", "always"]).out
    );
}

#[test]
fn a_page_is_set_where_colours_are_asked_for() {
    let ran = run(&["explain", "NP201", "--color", "always"]);
    assert!(
        ran.out.starts_with("\u{1b}[1m"),
        "{}",
        ran.out.escape_debug()
    );
    assert!(!ran.out.contains('`'), "{}", ran.out);
}

#[test]
fn errors_of_the_api_have_pages_too() {
    let ran = run(&["explain", "NOT_FOUND"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, noetl_types::ErrorCode::NotFound.page())
    );
}

#[test]
fn an_unknown_code_gets_suggestions() {
    insta::assert_snapshot!(run(&["explain", "NP291"]).shown(), @r"
    ──── stderr
    error: there is no code 'NP291'
      help: did you mean NP201?
    ──── exit 3
    ");
    insta::assert_snapshot!(run(&["explain", "cron"]).shown(), @r"
    ──── stderr
    error: there is no code 'cron'
      help: did you mean NP701?
    ──── exit 3
    ");
    insta::assert_snapshot!(run(&["explain", "rubbish"]).shown(), @r"
    ──── stderr
    error: there is no code 'rubbish'
      help: list every code with: noetl explain
    ──── exit 3
    ");
}

#[test]
fn without_a_code_all_are_listed() {
    let ran = run(&["explain"]);
    let codes: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for code in noetl_playbook::Code::ALL {
        assert!(codes.contains(&code.as_str()), "{code} is not listed");
    }
    for code in noetl_types::ErrorCode::ALL {
        assert!(codes.contains(&code.as_str()), "{code} is not listed");
    }
}

#[test]
fn every_listed_code_has_a_page() {
    for line in run(&["explain"])
        .out
        .lines()
        .filter(|line| line.contains("  "))
    {
        let code = line.split(' ').next().unwrap();
        assert_eq!(run(&["explain", code]).code, 0, "{code}");
    }
}

#[test]
fn schemas_are_json_schemas() {
    let playbook = run(&["schema"]);
    assert_eq!(playbook.out, run(&["schema", "playbook"]).out);
    for kind in ["playbook", "subscription", "schedule"] {
        let ran = run(&["schema", kind]);
        let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        for key in ["apiVersion", "kind", "metadata"] {
            assert!(schema["properties"][key].is_object(), "{kind} lacks {key}");
        }
    }
    assert_eq!(run(&["schema", "playbok"]).code, 2);
}
