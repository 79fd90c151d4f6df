use proptest::prelude::*;

use super::*;

fn split_template(text: &str) -> Vec<&str> {
    split_statements(text).into_iter().map(|range| &text[range]).collect()
}

fn split_plain(text: &str) -> Vec<&str> {
    split_rendered(text).into_iter().map(|range| &text[range]).collect()
}

#[test]
fn statements_end_at_semicolons() {
    assert_eq!(split_template("select 1"), ["select 1"]);
    assert_eq!(split_template("select 1;"), ["select 1"]);
    assert_eq!(split_template(" a ;\n b;;\t; c \n"), ["a", "b", "c"]);
    assert_eq!(split_template(""), [""; 0]);
    assert_eq!(split_template(" ; ;"), [""; 0]);
}

#[test]
fn quotes_protect_semicolons() {
    for statement in [
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
        assert_eq!(split_template(statement), [statement]);
        assert_eq!(split_plain(statement), [statement]);
        let twice = format!("{statement};{statement}");
        assert_eq!(split_template(&twice), [statement, statement]);
    }
}

#[test]
fn ignores_lookalikes_of_quotes() {
    // A standard string literal has no backslash escapes, so the quote after it closes.
    assert_eq!(split_template(r"select '\'; select 2"), [r"select '\'", "select 2"]);
    assert_eq!(split_template("select $1; select $2"), ["select $1", "select $2"]);
    assert_eq!(split_template("select a$$b; c$$d"), ["select a$$b", "c$$d"]);
    assert_eq!(split_template("select $1$; 2"), ["select $1$", "2"]);
    assert_eq!(split_template(r"select type'\'; 2"), [r"select type'\'", "2"]);
    assert_eq!(split_template("a - -1; b"), ["a - -1", "b"]);
}

#[test]
fn comments_protect_semicolons() {
    assert_eq!(split_template("select 1 -- a; b\n, 2; c"), ["select 1 -- a; b\n, 2", "c"]);
    assert_eq!(split_template("a /* ; /* ; */ ; */ b; c"), ["a /* ; /* ; */ ; */ b", "c"]);
    assert_eq!(split_template("-- only; this\n; /* and; this */ ; a; -- done"), ["a"]);
    assert_eq!(split_template("/*+ hint */ select 1"), ["/*+ hint */ select 1"]);
    assert_eq!(split_template("-- it's\na; b"), ["-- it's\na", "b"]);
}

#[test]
fn unclosed_construct_extends_to_end() {
    for statement in
        ["a 'b; c", "a \"b; c", "a $x$ b; c", "a /* b; c", "a E'\\", "a E'b\\'; c", "a (b; c"]
    {
        assert_eq!(split_template(statement), [statement]);
    }
    assert_eq!(split_template("a); b"), ["a)", "b"]);
}

#[test]
fn templates_protect_semicolons() {
    for statement in [
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
        assert_eq!(split_template(statement), [statement]);
        let twice = format!("{statement} ; {statement}");
        assert_eq!(split_template(&twice), [statement, statement]);
    }
    // A template statement renders nothing, so there is nothing to execute.
    assert_eq!(split_template("{% if a %} select 1; {% endif %}"), ["{% if a %} select 1"]);
    assert_eq!(split_template("{# note; #}; a"), ["a"]);
    // An unclosed tag is not a template.
    assert_eq!(split_template("select '{{ a'; b"), ["select '{{ a'", "b"]);
}

#[test]
fn rendered_text_has_no_templates() {
    assert_eq!(
        split_plain("select '{{1,2}, {3}, {4} }'; select '}}'"),
        ["select '{{1,2}, {3}, {4} }'", "select '}}'"]
    );
    assert_eq!(split_plain("select '{{ a; b }}'"), ["select '{{ a; b }}'"]);
    assert_eq!(split_plain("{{ a; b }}"), ["{{ a", "b }}"]);
}

#[test]
fn routine_bodies_are_one_statement() {
    let function = "create or replace function f(a int, \"end\" int) returns int\n\
        begin atomic; insert into t values (1); select case when a > 1 then 1 else 2 end; end";
    let trigger = "CREATE TEMP TRIGGER log AFTER INSERT ON t BEGIN INSERT INTO u VALUES (1); DELETE FROM v; END";
    let rule = "create rule r as on insert to t do (insert into u values (1); notify x)";
    for statement in [function, trigger, rule] {
        let text = format!("{statement}; select 2");
        assert_eq!(split_template(&text), [statement, "select 2"]);
    }
    // A transaction consists of separate statements.
    assert_eq!(
        split_template("begin; insert into t values (1); end"),
        ["begin", "insert into t values (1)", "end"]
    );
    assert_eq!(
        split_template("create table t (a int); begin; b"),
        ["create table t (a int)", "begin", "b"]
    );
}

/// A statement without an unprotected `;`.
fn arb_statement() -> impl Strategy<Value = String> {
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
        // Spaces keep adjacent parts from merging into `''` or a longer name.
        format!("select {}", parts.join(" "))
    })
}

/// True if the text contains no statement.
fn is_gap(text: &str) -> bool {
    split_statements(text).is_empty()
}

proptest! {
    #[test]
    fn joined_statements_split_again(statements in prop::collection::vec(arb_statement(), 0..5)) {
        let text = statements.join(";");
        let found: Vec<&str> = split_template(&text).into_iter().map(str::trim_end).collect();
        let expected: Vec<&str> = statements.iter().map(|statement| statement.trim_end()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn quoted_text_is_never_split(inside in any::<String>()) {
        let text = format!("a '{}'", inside.replace('\'', "''"));
        prop_assert_eq!(split_plain(&text), [text.as_str()]);
        let name = format!("a \"{}\"", inside.replace('"', "\"\""));
        prop_assert_eq!(split_plain(&name), [name.as_str()]);
        let tagged = format!("a $q${}$q$", inside.replace('$', ""));
        prop_assert_eq!(split_plain(&tagged), [tagged.as_str()]);
    }

    /// For any text, the statements are in order with only separators between them.
    #[test]
    fn only_separators_lie_between_statements(text in "[a-z ;'\"$\\\\/*(){}%#\\n-]{0,40}|\\PC{0,20}") {
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

#[test]
fn placeholders_of_each_dialect() {
    let text = "select $1, :a::int, '?', b ? 'x', @c, a[1:2], $tag$ $9 $tag$, ?, ?7 -- $3";
    let names = |dialect| {
        let found = find_placeholders(text, dialect);
        found.iter().map(|found| &text[found.range.clone()]).collect::<Vec<_>>()
    };
    assert_eq!(names(SqlDialect::Postgres), ["$1", ":a"]);
    assert_eq!(names(SqlDialect::Sqlite), ["$1", ":a", "?", "@c", "?", "?7"]);
}

#[test]
fn params_match_the_placeholders_of_all_statements() {
    let check = |text: &str, dialect, given| find_param_mismatch([text], dialect, &given);
    let (postgres, sqlite) = (SqlDialect::Postgres, SqlDialect::Sqlite);
    for (text, dialect, given) in [
        ("a ?; b ?, ?", sqlite, GivenParams::List(3)),
        ("a $1; b $1, $2", postgres, GivenParams::List(2)),
        ("a :x; b :x, :y", postgres, GivenParams::Names(vec!["x", "y", "z"])),
        ("a", postgres, GivenParams::List(0)),
    ] {
        assert_eq!(check(text, dialect, given), None, "{text}");
    }
    for (text, given, message) in [
        (
            "a ?; b ?",
            GivenParams::List(1),
            "the statements have 2 parameters, but 'params' has 1 values",
        ),
        (
            "a; b",
            GivenParams::List(1),
            "the statements have 0 parameters, but 'params' has 1 values",
        ),
        ("a :x", GivenParams::List(1), "the parameter ':x' has no value in 'params'"),
        ("a :x, @y", GivenParams::Names(vec!["x"]), "the parameter '@y' has no value in 'params'"),
        ("a ?", GivenParams::Names(vec!["x"]), "the parameter '?' has no value in 'params'"),
    ] {
        assert_eq!(check(text, sqlite, given).as_deref(), Some(message), "{text}");
    }
}
