//! Types, printing, numbers, undefined and null.

use noetl_playbook::template::{RenderErrorKind, Template};
use noetl_types::Json;

use crate::template_suite::support::{
    assert_expressions, assert_failures, assert_templates, environment_from_json, parse_json,
    parse_template, render_template,
};

const NAMES: &str = r#"{
    "n": 3, "f": 2.5, "big": 18446744073709551615, "t": true, "no": false, "z": null,
    "s": "text", "e": "", "l": [1, "a", true, null], "m": {"b": 2, "a": {"c": [10, 20]}},
    "braces": "{{ n }} {% if %}", "i-d": 7
}"#;

#[test]
fn text_without_tags_is_literal() {
    for text in ["", "plain", "{ not }", "${#array[@]}", "{# only a comment #}", "a } b {"] {
        let template = parse_template(text);
        assert!(template.is_literal(), "{text}");
        assert!(!Template::has_markers(text), "{text}");
        assert_eq!(template.render(&environment_from_json("{}")).unwrap().value, Json::from(text));
        assert_eq!(template.source(), text);
    }
}

#[test]
fn single_expression_keeps_its_type() {
    assert_templates(
        NAMES,
        &[
            ("{{ n }}", "3"),
            ("  {{ n }}\n", "3"),
            ("{{- n -}}", "3"),
            (" \n{{- n -}}\t", "3"),
            ("{# why #}{{ n }}", "3"),
            ("{{ f }}", "2.5"),
            ("{{ big }}", "18446744073709551615"),
            ("{{ t }}", "true"),
            ("{{ z }}", "null"),
            ("{{ s }}", "\"text\""),
            ("{{ l }}", r#"[1,"a",true,null]"#),
            ("{{ m }}", r#"{"a":{"c":[10,20]},"b":2}"#),
            ("{{ missing }}", "null"),
            ("{{ '3' }}", "\"3\""),
        ],
    );
}

#[test]
fn mixed_content_renders_to_text() {
    assert_templates(
        NAMES,
        &[
            ("{{ n }}{{ n }}", "\"33\""),
            ("{{ n }}.", "\"3.\""),
            ("a {{ n }}", "\"a 3\""),
            ("{% if t %}{{ n }}{% endif %}", "\"3\""),
            ("{{ '{' }}\"a\": 1{{ '}' }}", r#""{\"a\": 1}""#),
            ("{% set x = 1 %}", "\"\""),
        ],
    );
}

#[test]
fn rendered_values_are_not_rendered_again() {
    assert_templates(
        NAMES,
        &[
            ("{{ braces }}", r#""{{ n }} {% if %}""#),
            ("<{{ braces }}>", r#""<{{ n }} {% if %}>""#),
            ("{{ '{{ n }}' }}", r#""{{ n }}""#),
            ("{% set x = braces %}{{ x }}.", r#""{{ n }} {% if %}.""#),
            ("{% raw %}{{ n }}{% endraw %}", r#""{{ n }}""#),
        ],
    );
}

#[test]
fn values_are_canonical() {
    assert_expressions(
        NAMES,
        &[
            ("4 / 2", "2"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("1e300", "1e300"),
            ("-0.0", "0"),
            ("{'b': 1, 'a': 2}", r#"{"a":2,"b":1}"#),
            ("[1.0, 2.50]", "[1,2.5]"),
            ("(4 / 2) is integer", "true"),
        ],
    );
    let printed =
        render_template("{{ {'b': 1, 'a': [1.0]} }}!", &environment_from_json(NAMES)).unwrap();
    assert_eq!(printed, Json::from(r#"{"a":[1],"b":1}!"#));
}

#[test]
fn prints_values_by_type() {
    assert_templates(
        NAMES,
        &[
            ("<{{ missing }}>", "\"<>\""),
            ("<{{ missing.a.b }}>", "\"<>\""),
            ("<{{ z }}>", "\"<>\""),
            ("<{{ t }}{{ no }}>", "\"<TrueFalse>\""),
            ("<{{ n }}{{ f }}>", "\"<32.5>\""),
            ("<{{ big }}>", "\"<18446744073709551615>\""),
            ("<{{ 1e21 }}>", "\"<1e+21>\""),
            ("<{{ 0.1 + 0.2 }}>", "\"<0.30000000000000004>\""),
            ("<{{ s }}>", "\"<text>\""),
            ("<{{ l }}>", r#""<[1,\"a\",true,null]>""#),
            ("<{{ m }}>", r#""<{\"a\":{\"c\":[10,20]},\"b\":2}>""#),
            ("{{ 'a' ~ 1 ~ none ~ true ~ [1] ~ missing }}", "\"a1True[1]\""),
        ],
    );
}

#[test]
fn drops_one_trailing_newline() {
    assert_templates(
        NAMES,
        &[
            ("a {{ n }}\n", "\"a 3\""),
            ("a {{ n }}\r\n", "\"a 3\""),
            ("a {{ n }}\n\n", "\"a 3\\n\""),
        ],
    );
}

#[test]
fn whitespace_control() {
    assert_templates(
        NAMES,
        &[
            ("a  {{- n }}  b", "\"a3  b\""),
            ("a  {{ n -}}  b", "\"a  3b\""),
            ("a \n {%- if t -%} \n x \n {%- endif -%} \n b", "\"axb\""),
            ("a  {#- c -#}  b {{ n }}", "\"ab 3\""),
            ("a {%+ if t +%} b{% endif %}", "\"a  b\""),
            ("a {%- raw -%} {{ x }} {%- endraw -%} b", "\"a{{ x }}b\""),
        ],
    );
}

#[test]
fn arithmetic_operators() {
    assert_expressions(
        NAMES,
        &[
            ("1 + 2 * 3 - 4", "3"),
            ("(1 + 2) * 3", "9"),
            ("7 / 2", "3.5"),
            ("7 // 2", "3"),
            ("-7 // 2", "-4"),
            ("7.5 // 2", "3"),
            ("7 % 3", "1"),
            ("-7 % 3", "2"),
            ("7 % -3", "-2"),
            ("7.5 % 2", "1.5"),
            ("-7.5 % 2", "0.5"),
            ("2 ** 10", "1024"),
            ("2 ** -1", "0.5"),
            ("2 ** 0.5", "1.4142135623730951"),
            ("2 ** 3 ** 2", "64"),
            ("-2 ** 2", "4"),
            ("0 ** 0", "1"),
            ("(-1) ** 999999999999", "-1"),
            ("1 ** 999999999999", "1"),
            ("+n", "3"),
            ("- -n", "3"),
            ("-m.b", "-2"),
            ("-3 | abs", "3"),
            ("9223372036854775807 + 1", "9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9007199254740993 + 0", "9007199254740993"),
            ("0x1F + 0b11 + 0o7", "41"),
            ("1_000", "1000"),
            ("1 - 1", "0"),
            ("n-1", "2"),
            ("'a' + 'b'", "\"ab\""),
            ("[1] + [2, 3]", "[1,2,3]"),
            ("'ab' * 2", "\"abab\""),
            ("2 * 'ab'", "\"abab\""),
            ("[1, 2] * 2", "[1,2,1,2]"),
            ("'ab' * 0", "\"\""),
            ("'ab' * -1", "\"\""),
            ("[] * 99999999999", "[]"),
            ("1 ~ 2", "\"12\""),
            ("2 * 3 ~ 4", "\"64\""),
        ],
    );
}

#[test]
fn operation_errors_name_types_and_positions() {
    assert_failures(
        NAMES,
        &[
            ("1 / 0", "division by zero"),
            ("1 // 0", "division by zero"),
            ("1.5 % 0", "division by zero"),
            ("18446744073709551615 + 1", "integer does not fit 64 bits"),
            ("-9223372036854775808 - 1", "integer does not fit 64 bits"),
            ("2 ** 64", "integer does not fit 64 bits"),
            ("2 ** 1000000000", "integer does not fit 64 bits"),
            ("2 ** 99999999999999", "integer does not fit 64 bits"),
            ("1e308 * 10.5", "number is not finite"),
            ("(-8.5) ** 0.5", "number is not finite"),
            ("1 + 'a'", "cannot add text to number"),
            ("1 + 1 ~ 2", "cannot add text to number"),
            ("'a' + 1", "cannot add number to text"),
            ("missing + 1", "cannot add number to null"),
            ("t + 1", "cannot add number to bool"),
            ("[] - 1", "cannot subtract number from list"),
            ("{} * 2", "cannot multiply map by number"),
            ("'a' * 1.5", "cannot multiply text by number"),
            ("'a' / 2", "cannot divide text by number"),
            ("'a' ** 2", "cannot raise text to number"),
            ("-'a'", "cannot negate a text"),
            ("1 in 'abc'", "a text cannot contain a number"),
            ("1 in 5", "a number contains nothing"),
            ("5[1:2]", "a number cannot be sliced"),
            ("l[::0]", "a slice cannot have a step of 0"),
            ("l['a':]", "a slice takes integers"),
            ("{[1]: 2}", "a list cannot be a key"),
        ],
    );
    let error =
        render_template("line one\n  and {{ n + s }}", &environment_from_json(NAMES)).unwrap_err();
    assert_eq!(error.kind, RenderErrorKind::Failed);
    assert_eq!((error.line, error.column), (2, 14));
    assert_eq!(error.excerpt, "  and {{ n + s }}");
    assert_eq!(error.to_string(), "cannot add text to number at line 2 column 14");
}

#[test]
fn equality_and_order() {
    assert_expressions(
        NAMES,
        &[
            ("1 == 1.0", "true"),
            ("'1' == 1", "false"),
            ("'1' != 1", "true"),
            ("true == 1", "false"),
            ("none == false", "false"),
            ("missing == none", "false"),
            ("missing == missing", "true"),
            ("[1, 2] == [1.0, 2]", "true"),
            ("{'a': 1} == {'a': 1}", "true"),
            ("m == m", "true"),
            ("1 < 2 < 3", "true"),
            ("1 < 3 < 2", "false"),
            ("3 > 2 == true", "false"),
            ("'a' < 'b'", "true"),
            ("'a' < 'B'", "false"),
            ("[1, 2] < [1, 3]", "true"),
            ("[1] < [1, 0]", "true"),
            ("9007199254740993 > 9007199254740992.5", "true"),
            ("18446744073709551615 < 1e20", "true"),
            ("1 < 1.5 < 2", "true"),
            // Comparing different types is never an error and has a fixed order.
            ("3 < '2'", "true"),
            ("'3' > 2", "true"),
            ("none < false", "true"),
            ("true < 0", "true"),
            ("'z' < []", "true"),
            ("[] < {}", "true"),
            ("missing < none", "true"),
        ],
    );
}

#[test]
fn logical_operators() {
    assert_expressions(
        NAMES,
        &[
            ("true and false", "false"),
            ("true or false", "true"),
            ("not true", "false"),
            ("not not n", "true"),
            ("s and n", "3"),
            ("e and n", "\"\""),
            ("e or n", "3"),
            ("missing or z or 'x'", "\"x\""),
            ("0 or []", "[]"),
            ("not missing", "true"),
            ("not n == 3", "false"),
            ("true or 1 / 0", "true"),
            ("false and 1 / 0", "false"),
            ("1 if t else 2", "1"),
            ("1 if no else 2", "2"),
            ("1 if no", "null"),
            ("1 if no else 2 if no else 3", "3"),
            // Inside an expression, any non-empty text is true.
            ("'yes' if 'false' else 'no'", "\"yes\""),
            ("1 in [1, 2]", "true"),
            ("1 not in [1, 2]", "false"),
            ("'ex' in s", "true"),
            ("'b' in m", "true"),
            ("'c' in m", "false"),
            ("1 in missing", "false"),
            ("1 in none", "false"),
            ("not 1 in [1]", "false"),
            ("[1] in [[1]]", "true"),
        ],
    );
}

#[test]
fn lookups_and_slices() {
    assert_expressions(
        NAMES,
        &[
            ("m.a.c[0]", "10"),
            ("m['a']['c'][1]", "20"),
            ("m.a.c.1", "20"),
            ("m.a.c[-1]", "20"),
            ("m.a.c[5]", "null"),
            ("m.a.c[-5]", "null"),
            ("m[s]", "null"),
            ("m['a'].c | length", "2"),
            ("s[0]", "\"t\""),
            ("s[-1]", "\"t\""),
            ("'äöü'[1]", "\"ö\""),
            ("{1: 'a'}[1]", "\"a\""),
            ("{1: 'a'}['1']", "\"a\""),
            ("l[0:2]", r#"[1,"a"]"#),
            ("l[1:]", r#"["a",true,null]"#),
            ("l[:-2]", r#"[1,"a"]"#),
            ("l[::2]", "[1,true]"),
            ("l[::-1]", r#"[null,true,"a",1]"#),
            ("l[2:0:-1]", r#"[true,"a"]"#),
            ("l[10:20]", "[]"),
            ("s[1:3]", "\"ex\""),
            ("s[::-1]", "\"txet\""),
            ("'äöü'[1:]", "\"öü\""),
            ("missing[1:2]", "null"),
            ("z[1:]", "null"),
            ("(m).b", "2"),
            ("[1, [2, 3]][1][0]", "2"),
            ("{'a': {'b': 5}}.a.b", "5"),
            ("(1, 2, 3)[1]", "2"),
            ("()", "[]"),
            ("(1,)", "[1]"),
            ("[1, 2,]", "[1,2]"),
            ("{'a': 1,}", r#"{"a":1}"#),
            ("{s: n, 2: 3, true: 4}", r#"{"text":3,"2":3,"True":4}"#),
        ],
    );
}

#[test]
fn undefined_and_null() {
    assert_expressions(
        NAMES,
        &[
            ("missing.a.b.c", "null"),
            ("missing['a'][0].b", "null"),
            ("z.a.b", "null"),
            ("z[0]", "null"),
            ("n.a", "null"),
            ("s.a.b", "null"),
            ("l.a", "null"),
            ("missing is defined", "false"),
            ("missing.a is defined", "false"),
            ("m.nope is defined", "false"),
            ("z is defined", "true"),
            ("z is none", "true"),
            ("missing is none", "false"),
            ("missing is undefined", "true"),
            ("missing | default(5)", "5"),
            ("z | default(5)", "5"),
            ("e | default(5)", "\"\""),
            ("0 | default(5)", "0"),
            ("false | default(5)", "false"),
            ("e | default(5, true)", "5"),
            ("0 | default(5, boolean=true)", "5"),
            ("missing | default", "\"\""),
            ("missing | d('x')", "\"x\""),
            ("m.a.nope.deeper | default('x')", "\"x\""),
            ("missing | default(default_value=7)", "7"),
            ("missing | default(none)", "null"),
        ],
    );
}

#[test]
fn string_literals_and_escapes() {
    assert_expressions(
        NAMES,
        &[
            (r#""a" 'b' "c""#, "\"abc\""),
            (r"'it\'s'", "\"it's\""),
            (r"'a\nb\tc\\d'", r#""a\nb\tc\\d""#),
            (r"'\u00e9\x41\ud83d\ude00'", "\"éA😀\""),
            (r"'\d+\.'", r#""\\d+\\.""#),
            ("'}} %} {{'", "\"}} %} {{\""),
            ("'ünïcode'", "\"ünïcode\""),
        ],
    );
    let wide =
        render_template("{{ größe }} {{ 名 }}", &environment_from_json(r#"{"größe": 1, "名": 2}"#))
            .unwrap();
    assert_eq!(wide, Json::from("1 2"));
}

#[test]
fn map_literals_do_not_end_tags() {
    assert_templates(
        NAMES,
        &[
            ("{{ {'a': {'b': {}}} }}", r#"{"a":{"b":{}}}"#),
            ("{{{'a': 1}}}", r#"{"a":1}"#),
            ("{% set x = {'a': {'b': 1}} %}{{ x.a.b }}", "\"1\""),
        ],
    );
}

#[test]
fn value_passes_through_unchanged() {
    let value = parse_json(r#"{"deep":[[[{"a":[null,true,-1,18446744073709551615,1.5,"x"]}]]]}"#);
    let environment = noetl_playbook::template::MapEnvironment::new().with_name("x", value.clone());
    assert_eq!(render_template("{{ x }}", &environment).unwrap(), value);
    assert_eq!(
        render_template("{{ x.deep[0][0][0].a | tojson }}", &environment)
            .unwrap()
            .as_str()
            .unwrap(),
        "[null,true,-1,18446744073709551615,1.5,\"x\"]"
    );
}
