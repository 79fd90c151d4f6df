use proptest::prelude::*;

use super::{split_rendered, split_statements};

fn pieces(text: &str) -> Vec<&str> {
    split_statements(text)
        .into_iter()
        .map(|range| &text[range])
        .collect()
}

fn rendered(text: &str) -> Vec<&str> {
    split_rendered(text)
        .into_iter()
        .map(|range| &text[range])
        .collect()
}

#[test]
fn statements_end_at_semicolons() {
    assert_eq!(pieces("select 1"), ["select 1"]);
    assert_eq!(pieces("select 1;"), ["select 1"]);
    assert_eq!(pieces(" a ;\n b;;\t; c \n"), ["a", "b", "c"]);
    assert_eq!(pieces(""), [""; 0]);
    assert_eq!(pieces(" ; ;"), [""; 0]);
}

#[test]
fn quotes_hold_semicolons() {
    for whole in [
        "select 'a;b'",
        "select 'it''s; fine'",
        r#"select "a;""b" from t"#,
        r"select E'it\'s; fine', e'\\'",
        "select U&'a;'",
        "select $$a;b$$",
        "select $fn$ a; $$ b; $other$ $fn$",
        "select $größe$;$größe$",
        "values ('a', ';')",
    ] {
        assert_eq!(pieces(whole), [whole]);
        assert_eq!(rendered(whole), [whole]);
        let twice = format!("{whole};{whole}");
        assert_eq!(pieces(&twice), [whole, whole]);
    }
}

#[test]
fn what_only_looks_like_a_quote() {
    // Standard text knows no backslash, so the quote after it closes.
    assert_eq!(pieces(r"select '\'; select 2"), [r"select '\'", "select 2"]);
    assert_eq!(pieces("select $1; select $2"), ["select $1", "select $2"]);
    assert_eq!(pieces("select a$$b; c$$d"), ["select a$$b", "c$$d"]);
    assert_eq!(pieces("select $1$; 2"), ["select $1$", "2"]);
    assert_eq!(pieces(r"select type'\'; 2"), [r"select type'\'", "2"]);
    assert_eq!(pieces("a - -1; b"), ["a - -1", "b"]);
}

#[test]
fn comments_hold_semicolons_and_are_no_statements() {
    assert_eq!(
        pieces("select 1 -- a; b\n, 2; c"),
        ["select 1 -- a; b\n, 2", "c"]
    );
    assert_eq!(
        pieces("a /* ; /* ; */ ; */ b; c"),
        ["a /* ; /* ; */ ; */ b", "c"]
    );
    assert_eq!(
        pieces("-- only; this\n; /* and; this */ ; a; -- done"),
        ["a"]
    );
    assert_eq!(pieces("/*+ hint */ select 1"), ["/*+ hint */ select 1"]);
    assert_eq!(pieces("-- it's\na; b"), ["-- it's\na", "b"]);
}

#[test]
fn what_is_never_closed_reaches_to_the_end() {
    for whole in [
        "a 'b; c",
        "a \"b; c",
        "a $x$ b; c",
        "a /* b; c",
        "a E'\\",
        "a E'b\\'; c",
        "a (b; c",
    ] {
        assert_eq!(pieces(whole), [whole]);
    }
    assert_eq!(pieces("a); b"), ["a)", "b"]);
}

#[test]
fn templates_are_left_alone() {
    for whole in [
        "select {{ a; b }}",
        "select '{{ row['id'] }}; x'",
        "select {{ '}}; ' }} from t",
        r#"select {{ "\"}}; " }}"#,
        "select /* {{ '*/' }} ; */ 1",
        "select $$ {{ '$$' }}; $$",
        "{% if a %} select 1 {% endif %}",
        "select {# a; b #} 1",
        "{{ statement }}",
    ] {
        assert_eq!(pieces(whole), [whole]);
        let twice = format!("{whole} ; {whole}");
        assert_eq!(pieces(&twice), [whole, whole]);
    }
    // A statement of the template language prints nothing, so it is nothing to run.
    assert_eq!(
        pieces("{% if a %} select 1; {% endif %}"),
        ["{% if a %} select 1"]
    );
    assert_eq!(pieces("{# note; #}; a"), ["a"]);
    // An open end is no template.
    assert_eq!(pieces("select '{{ a'; b"), ["select '{{ a'", "b"]);
}

#[test]
fn braces_in_what_a_database_gets_are_braces() {
    assert_eq!(
        rendered("select '{{1,2}, {3}, {4} }'; select '}}'"),
        ["select '{{1,2}, {3}, {4} }'", "select '}}'"]
    );
    assert_eq!(rendered("select '{{ a; b }}'"), ["select '{{ a; b }}'"]);
    assert_eq!(rendered("{{ a; b }}"), ["{{ a", "b }}"]);
}

#[test]
fn bodies_of_routines_hold_statements() {
    let function = "create or replace function f(a int, \"end\" int) returns int\n\
        begin atomic; insert into t values (1); select case when a > 1 then 1 else 2 end; end";
    let trigger = "CREATE TEMP TRIGGER log AFTER INSERT ON t BEGIN INSERT INTO u VALUES (1); DELETE FROM v; END";
    let rule = "create rule r as on insert to t do (insert into u values (1); notify x)";
    for whole in [function, trigger, rule] {
        let text = format!("{whole}; select 2");
        assert_eq!(pieces(&text), [whole, "select 2"]);
    }
    // A transaction is made of statements.
    assert_eq!(
        pieces("begin; insert into t values (1); end"),
        ["begin", "insert into t values (1)", "end"]
    );
    assert_eq!(
        pieces("create table t (a int); begin; b"),
        ["create table t (a int)", "begin", "b"]
    );
}

/// Text that holds no `;` outside of what protects it.
fn statement() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z]{1,6}",
        "[0-9]{1,3}",
        "'([^'{]|'')*'",
        "\"([^\"{]|\"\")*\"",
        r"E'([^'\\{]|''|\\[^{])*'",
        r"\$\$[^${]*\$\$",
        r"\$q\$([^${]|\$\$ )*\$q\$",
        "--[^\n{]*\n",
        r"/\*[^*/{]*(/\*[^*/{]*\*/)?[^*/{]*\*/",
        r"\{\{ [^{}%#'\x22\\]* \}\}",
        "\\([a-z;]*\\)",
        "[ \t\n,=<>+]",
        Just("größe".to_owned()),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| {
        // Blanks keep neighbours from growing together, into `''` or a longer name.
        format!("select {}", parts.join(" "))
    })
}

/// Whether nothing is there that could be run.
fn is_gap(text: &str) -> bool {
    split_statements(text).is_empty()
}

proptest! {
    #[test]
    fn what_is_joined_is_split_again(statements in prop::collection::vec(statement(), 0..5)) {
        let text = statements.join(";");
        let found: Vec<&str> = pieces(&text).into_iter().map(str::trim_end).collect();
        let expected: Vec<&str> = statements.iter().map(|statement| statement.trim_end()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_quoted_text_is_never_torn(inside in any::<String>()) {
        let text = format!("a '{}'", inside.replace('\'', "''"));
        prop_assert_eq!(rendered(&text), [text.as_str()]);
        let name = format!("a \"{}\"", inside.replace('"', "\"\""));
        prop_assert_eq!(rendered(&name), [name.as_str()]);
        let tagged = format!("a $q${}$q$", inside.replace('$', ""));
        prop_assert_eq!(rendered(&tagged), [tagged.as_str()]);
    }

    /// Any text at all: the pieces are in order, and nothing but separators lies between them.
    #[test]
    fn nothing_is_lost(text in "[a-z ;'\"$\\\\/*(){}%#\\n-]{0,40}|\\PC{0,20}") {
        for ranges in [split_statements(&text), split_rendered(&text)] {
            let mut end = 0;
            for range in ranges {
                prop_assert!(end <= range.start && range.start < range.end);
                prop_assert_eq!(text[range.clone()].trim_start(), &text[range.clone()]);
                end = range.end;
            }
            prop_assert!(end <= text.len());
        }
        let mut end = 0;
        for range in split_statements(&text) {
            prop_assert!(is_gap(&text[end..range.start]), "{:?}", &text[end..range.start]);
            end = range.end;
        }
        prop_assert!(is_gap(&text[end..]));
    }
}
