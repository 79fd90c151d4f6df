//! Every filter, test, function and method.

use noetl_playbook::template::{MapEnvironment, StartEnvironment, Template, TemplatePlace};
use noetl_types::Json;
use noetl_types::time::Timestamp;

use crate::template_suite::support::{
    assert_expressions, assert_failures, assert_templates, environment_from_json, parse_json,
    parse_template, render_template,
};

const NAMES: &str = r#"{
    "z": null, "s": "Some text", "l": [3, 1, 2], "m": {"b": 2, "a": 1},
    "rows": [
        {"id": 1, "city": "Rome", "pop": 2.5, "tags": ["x"], "in": {"n": 1}},
        {"id": 2, "city": "oslo", "pop": 0.5, "tags": [], "in": {"n": 2}},
        {"id": 3, "city": "rome", "in": {"n": 3}}
    ]
}"#;

#[test]
fn number_filters() {
    assert_expressions(
        NAMES,
        &[
            ("'42' | int", "42"),
            ("' 42 ' | int", "42"),
            ("'3.9' | int", "3"),
            ("'-3.9' | int", "-3"),
            ("'1e3' | int", "1000"),
            ("3.9 | int", "3"),
            ("true | int", "1"),
            ("'abc' | int", "0"),
            ("'abc' | int(7)", "7"),
            ("'abc' | int(default=7)", "7"),
            ("'inf' | int(7)", "7"),
            ("'1e30' | int(7)", "7"),
            ("z | int", "0"),
            ("missing | int(3)", "3"),
            ("[1] | int(3)", "3"),
            ("'9223372036854775808' | int", "9223372036854775808"),
            ("'99999999999999999999' | int(1)", "1"),
            ("'ff' | int(0, 16)", "255"),
            ("'0x1f' | int(base=16)", "31"),
            ("'-101' | int(0, 2)", "-5"),
            ("'zz' | int(9, 16)", "9"),
            ("'2.5' | float", "2.5"),
            ("'2' | float", "2"),
            ("'nan' | float(1)", "1"),
            ("'x' | float", "0"),
            ("z | float(1.5)", "1.5"),
            ("-3 | abs", "3"),
            ("-2.5 | abs", "2.5"),
            ("2.567 | round(2)", "2.57"),
            ("2.675 | round(2)", "2.67"),
            ("2.5 | round", "2"),
            ("3.5 | round", "4"),
            ("2.1 | round(0, 'ceil')", "3"),
            ("2.9 | round(method='floor')", "2"),
            ("-2.1 | round(0, 'floor')", "-3"),
            ("1234 | round(-2)", "1200"),
            ("7 | round(3)", "7"),
            ("1e300 | round(2)", "1e300"),
            ("[1, 2.5] | sum", "3.5"),
            ("[] | sum", "0"),
            ("[1] | sum(start=10)", "11"),
            ("rows | sum('id')", "6"),
            ("rows | sum(attribute='in.n')", "6"),
            ("l | min", "1"),
            ("l | max", "3"),
            ("[] | min", "null"),
            ("['b', 'A'] | min", "\"A\""),
            ("['b', 'A', 'a'] | max(case_sensitive=true)", "\"b\""),
            ("(rows | min(attribute='pop')).id", "3"),
            ("(rows | max(attribute='in.n')).id", "3"),
        ],
    );
    assert_failures(
        NAMES,
        &[
            ("'a' | abs", "abs of a text: not a number"),
            ("'a' | round", "round of a text: not a number"),
            ("1.5 | round(0, 'up')", "the method of round must be common, ceil or floor"),
            ("['a'] | sum", "cannot add text to number"),
            ("5 | length", "a number has no length"),
            ("5 | list", "a number has no items"),
            ("l | keys", "a list has no keys"),
            ("l | sort(attribute=1.5)", "an attribute must be a text or an integer, not a number"),
        ],
    );
}

#[test]
fn text_filters() {
    assert_expressions(
        NAMES,
        &[
            ("5 | string", "\"5\""),
            ("true | string", "\"True\""),
            ("z | string", "\"\""),
            ("[1, 'a'] | string", r#""[1,\"a\"]""#),
            ("s | lower", "\"some text\""),
            ("s | upper", "\"SOME TEXT\""),
            ("'straße' | upper", "\"STRASSE\""),
            ("'hello wORLD-foo (bar' | title", "\"Hello World-Foo (Bar\""),
            ("'  a ' | trim", "\"a\""),
            ("'xxaxx' | trim('x')", "\"a\""),
            ("'a-b-c' | replace('-', '+')", "\"a+b+c\""),
            ("'a-b-c' | replace('-', '', 1)", "\"ab-c\""),
            (r#""it's" | replace("'", "''")"#, "\"it''s\""),
            ("'abc' | replace('', '-')", "\"-a-b-c-\""),
            ("'a,b,,c' | split(',')", r#"["a","b","","c"]"#),
            ("'a,b,c' | split(',', 1)", r#"["a","b,c"]"#),
            ("'  a  b ' | split", r#"["a","b"]"#),
            ("'a b c' | split(none, 1)", r#"["a","b c"]"#),
            ("'' | split(',')", r#"[""]"#),
            ("l | join", "\"312\""),
            ("l | join(', ')", "\"3, 1, 2\""),
            ("[1, none, true] | join('-')", "\"1--True\""),
            ("rows | join('/', attribute='city')", "\"Rome/oslo/rome\""),
            ("m | join(',')", "\"a,b\""),
            ("'abc' | join('.')", "\"a.b.c\""),
            ("missing | join(',')", "\"\""),
            ("s | safe", "\"Some text\""),
            ("l | safe", "[3,1,2]"),
            ("missing | lower", "\"\""),
            ("42 | replace('2', '3')", "\"43\""),
        ],
    );
    assert_failures(
        NAMES,
        &[
            ("s | split('')", "cannot split at an empty text"),
            ("s | replace('a', 'b', 'c')", "expected an integer, found a text"),
        ],
    );
}

#[test]
fn collection_filters() {
    assert_expressions(
        NAMES,
        &[
            ("l | first", "3"),
            ("l | last", "2"),
            ("[] | first", "null"),
            ("'äb' | first", "\"ä\""),
            ("'äb' | last", "\"b\""),
            ("l | length", "3"),
            ("l | len", "3"),
            ("l | count", "3"),
            ("'äöü' | length", "3"),
            ("m | length", "2"),
            ("missing | length", "0"),
            ("z | length", "0"),
            ("m | keys", r#"["a","b"]"#),
            ("m | values", "[1,2]"),
            ("m | items", r#"[["a",1],["b",2]]"#),
            ("missing | items", "[]"),
            ("m | get('a')", "1"),
            ("m | get('x')", "null"),
            ("m | get('x', 5)", "5"),
            ("l | get(1)", "1"),
            ("l | sort", "[1,2,3]"),
            ("l | sort(reverse=true)", "[3,2,1]"),
            ("['b', 'A', 'c'] | sort", r#"["A","b","c"]"#),
            ("['b', 'A', 'c'] | sort(case_sensitive=true)", r#"["A","b","c"]"#),
            ("['b', 'A', 'B', 'a'] | sort(false, true)", r#"["A","B","a","b"]"#),
            ("rows | sort(attribute='city') | map(attribute='id') | list", "[2,1,3]"),
            ("rows | sort(attribute='city,id', reverse=true) | map(attribute='id')", "[3,1,2]"),
            ("m | sort", r#"["a","b"]"#),
            ("[2, 'a', none, [1], true] | sort", r#"[null,true,2,"a",[1]]"#),
            ("[1, 2, 1, 3, 2] | unique", "[1,2,3]"),
            ("['a', 'A', 'b'] | unique", r#"["a","b"]"#),
            ("['a', 'A'] | unique(case_sensitive=true)", r#"["a","A"]"#),
            ("rows | unique(attribute='city') | map(attribute='id')", "[1,2]"),
            ("l | reverse", "[2,1,3]"),
            ("'abc' | reverse", "\"cba\""),
            ("'ab' | list", r#"["a","b"]"#),
            ("m | list", r#"["a","b"]"#),
            ("missing | list", "[]"),
            ("z | list", "[]"),
            ("rows | map(attribute='id')", "[1,2,3]"),
            ("rows | map(attribute='pop')", "[2.5,0.5,null]"),
            ("rows | map(attribute='pop', default=0)", "[2.5,0.5,0]"),
            ("rows | map(attribute='tags.0')", r#"["x",null,null]"#),
            ("[[1, 2], [3, 4]] | map(attribute=1)", "[2,4]"),
            ("['a', 'b'] | map('upper')", r#"["A","B"]"#),
            ("['1', 'x'] | map('int', 9)", "[1,9]"),
            ("[[2, 1]] | map('sort')", "[[1,2]]"),
            ("[0, 1, '', 'a', none] | select", r#"[1,"a"]"#),
            ("[0, 1, '', 'a', none] | reject", r#"[0,"",null]"#),
            ("l | select('gt', 1)", "[3,2]"),
            ("l | reject('odd')", "[2]"),
            ("[1, none, 2] | select('none')", "[null]"),
            ("rows | selectattr('pop') | map(attribute='id')", "[1,2]"),
            ("rows | selectattr('pop', 'undefined') | map(attribute='id')", "[3]"),
            ("rows | selectattr('city', 'eq', 'oslo') | map(attribute='id')", "[2]"),
            ("rows | rejectattr('in.n', 'in', [1, 2]) | map(attribute='id')", "[3]"),
            ("rows | groupby('city') | map(attribute=0)", r#"["oslo","Rome"]"#),
            ("(rows | groupby('city')).1.list | map(attribute='id')", "[1,3]"),
            ("(rows | groupby('city'))[1].grouper", "\"Rome\""),
            ("rows | groupby('pop', default=9) | map(attribute=0)", "[0.5,2.5,9]"),
            ("rows | groupby('city', case_sensitive=true) | length", "3"),
        ],
    );
}

#[test]
fn encoding_filters() {
    assert_expressions(
        NAMES,
        &[
            ("m | tojson", r#""{\"a\":1,\"b\":2}""#),
            ("z | tojson", "\"null\""),
            ("missing | tojson", "\"null\""),
            ("'a\"b' | tojson", r#""\"a\\\"b\"""#),
            (
                "{'a': [1, {}], 'b': []} | tojson(indent=2)",
                r#""{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}""#,
            ),
            ("'{\"a\": [1.0, null]}' | fromjson", r#"{"a":[1,null]}"#),
            ("'7' | fromjson", "7"),
            ("'héllo' | b64encode", "\"aMOpbGxv\""),
            ("'a' | b64encode", "\"YQ==\""),
            ("'' | b64encode", "\"\""),
            ("'aMOpbGxv' | b64decode", "\"héllo\""),
            ("'YQ==' | b64decode", "\"a\""),
            ("'YQ' | b64decode", "\"a\""),
            ("'_-8' | b64encode | b64decode", "\"_-8\""),
            ("'a b/c?&é' | urlencode", "\"a%20b/c%3F%26%C3%A9\""),
            ("{'q': 'a b/c', 'n': 1, 'z': none} | urlencode", "\"n=1&q=a%20b%2Fc\""),
            ("[['a', 1], ['a', 2]] | urlencode", "\"a=1&a=2\""),
            (
                "'abc' | sha256",
                "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"",
            ),
        ],
    );
    assert_failures(
        NAMES,
        &[
            ("'{' | fromjson", "not JSON at line 1 column 1"),
            ("5 | fromjson", "fromjson takes a text, not a number"),
            ("'!' | b64decode", "not the base64 encoding of a text"),
            ("'/w==' | b64decode", "not the base64 encoding of a text"),
            ("'AA==' | b64decode", "text contains a NUL character"),
            ("[1] | urlencode", "urlencode takes a list of pairs"),
        ],
    );
}

#[test]
fn bool_filter() {
    assert_expressions(
        NAMES,
        &[
            ("'false' | bool", "false"),
            ("' NO ' | bool", "false"),
            ("'yes' | bool", "true"),
            ("0 | bool", "false"),
            ("[0] | bool", "true"),
            ("missing | bool", "false"),
        ],
    );
}

#[test]
fn is_tests() {
    assert_expressions(
        NAMES,
        &[
            ("true is true", "true"),
            ("1 is true", "false"),
            ("false is false", "true"),
            ("z is false", "false"),
            ("false is boolean", "true"),
            ("0 is boolean", "false"),
            ("1.5 is number", "true"),
            ("true is number", "false"),
            ("1 is integer", "true"),
            ("1.5 is integer", "false"),
            ("1.5 is float", "true"),
            ("1.0 is float", "false"),
            ("s is string", "true"),
            ("m is mapping", "true"),
            ("l is mapping", "false"),
            ("l is sequence", "true"),
            ("m is sequence", "false"),
            ("s is iterable", "true"),
            ("m is iterable", "true"),
            ("5 is iterable", "false"),
            ("3 is odd", "true"),
            ("-3 is odd", "true"),
            ("'3' is odd", "false"),
            ("4 is even", "true"),
            ("1 is in [1, 2]", "true"),
            ("1 is in([1, 2])", "true"),
            ("1 is not in [1, 2]", "false"),
            ("1 is eq 1.0", "true"),
            ("1 is ne 2", "true"),
            ("1 is lt 2", "true"),
            ("2 is le 2", "true"),
            ("1 is gt 2", "false"),
            ("2 is ge(2)", "true"),
            ("s is startingwith 'Some'", "true"),
            ("s is endingwith('text')", "true"),
            ("5 is startingwith '5'", "false"),
            ("s is defined and s is not none", "true"),
            ("'y' if z is none else 'n'", "\"y\""),
            ("z is none if true else 5", "true"),
            ("missing is string", "false"),
            ("not s is string", "false"),
            ("s | length is gt 3", "true"),
        ],
    );
}

#[test]
fn methods_by_type() {
    assert_expressions(
        NAMES,
        &[
            ("m.get('a')", "1"),
            ("m.get('x')", "null"),
            ("m.get('x', 9)", "9"),
            ("m.get('x', default=9)", "9"),
            ("m.keys()", r#"["a","b"]"#),
            ("m.values() | list", "[1,2]"),
            ("m.items()", r#"[["a",1],["b",2]]"#),
            ("s.lower()", "\"some text\""),
            ("s.upper()", "\"SOME TEXT\""),
            ("' a '.strip()", "\"a\""),
            ("'xax'.strip('x')", "\"a\""),
            ("'a,b'.split(',')", r#"["a","b"]"#),
            ("'a b'.split()", r#"["a","b"]"#),
            ("'a,b,c'.split(',', 1)", r#"["a","b,c"]"#),
            ("s.startswith('So')", "true"),
            ("s.startswith(['x', 'So'])", "true"),
            ("s.endswith('x')", "false"),
            ("','.join(['a', 1, none])", "\"a,1,\""),
            ("'aXbX'.replace('X', '-')", "\"a-b-\""),
            ("'aXbX'.replace('X', '-', 1)", "\"a-bX\""),
            ("'2024-01-01T00:00:00Z'.isoformat()", "\"2024-01-01T00:00:00Z\""),
            ("missing.get('a')", "null"),
            ("missing.get('a', 1)", "1"),
            ("z.get('a', 1)", "1"),
            ("missing.items()", "null"),
            ("z.lower()", "null"),
            ("m.a.get", "null"),
            // Without a call, the name is a key and not a method.
            ("{'items': 5}.items", "5"),
            ("{'items': 5}.items()", r#"[["items",5]]"#),
        ],
    );
    assert_failures(
        NAMES,
        &[
            ("l.get(0)", "a list has no method get"),
            ("s.keys()", "a text has no method keys"),
            ("5.5.lower()", "a number has no method lower"),
            ("s.split(5)", "expected a text, found a number"),
            ("s.startswith(5)", "startswith takes texts"),
        ],
    );
}

#[test]
fn global_functions() {
    assert_expressions(
        NAMES,
        &[
            ("range(3)", "[0,1,2]"),
            ("range(1, 4)", "[1,2,3]"),
            ("range(10, 0, -4)", "[10,6,2]"),
            ("range(0)", "[]"),
            ("range(5, 1)", "[]"),
            ("range(3) | sum", "3"),
            ("dict(a=1, b='x')", r#"{"a":1,"b":"x"}"#),
            ("dict(m, b=9)", r#"{"a":1,"b":9}"#),
            ("dict(m, **{'c': 3})", r#"{"a":1,"b":2,"c":3}"#),
            ("dict([['k', 1]])", r#"{"k":1}"#),
            ("dict()", "{}"),
        ],
    );
    assert_failures(
        NAMES,
        &[
            ("range(1.5)", "range takes integers, not a number"),
            ("range(1, 5, 0)", "range cannot have a step of 0"),
            ("range(100001)", "range has more than 100000 numbers"),
            ("range(0, 99999999999, 2)", "range has more than 100000 numbers"),
            ("dict(5)", "dict cannot be made from a number"),
            ("dict([1])", "dict takes a map or a list of pairs"),
            ("now()", "now() is not available here"),
        ],
    );
}

#[test]
fn now_returns_environment_time() {
    let environment =
        MapEnvironment::new().with_now(Timestamp::from_micros(1_700_000_000_123_456).unwrap());
    let text = "2023-11-14T22:13:20.123456Z";
    assert_eq!(render_template("{{ now() }}", &environment).unwrap(), Json::from(text));
    assert_eq!(
        render_template("at {{ now() }}", &environment).unwrap(),
        Json::from(format!("at {text}"))
    );
    assert_eq!(render_template("{{ now().isoformat() }}", &environment).unwrap(), Json::from(text));
}

#[test]
fn only_namespaces_are_mutable() {
    assert_templates(
        NAMES,
        &[
            (
                "{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
                "\"6\"",
            ),
            ("{% set ns = namespace() %}{% set ns.a = [1] %}{{ ns }}", r#""{\"a\":[1]}""#),
            ("{% set n = 0 %}{% for x in l %}{% set n = n + x %}{% endfor %}{{ n }}", "\"0\""),
        ],
    );
}

#[test]
fn random_values_need_start_environment() {
    let seed = [7; 32];
    let start = || StartEnvironment::new(environment_from_json(r#"{"env": {"HOME": "/x"}}"#), seed);
    let parse = |text: &str| Template::parse(text, TemplatePlace::Start).unwrap();
    let uuid = parse("{{ uuid() }}");
    let first = uuid.render(&start()).unwrap().value;
    let text = first.as_str().unwrap();
    assert_eq!(text.len(), 36);
    assert_eq!(text.as_bytes()[14], b'4', "{text}");
    assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
    assert_eq!(uuid.render(&start()).unwrap().value, first, "the same seed gives the same value");
    let both = start();
    assert_ne!(uuid.render(&both).unwrap().value, uuid.render(&both).unwrap().value);
    let random = parse("{{ random() }}").render(&start()).unwrap().value.as_f64().unwrap();
    assert!((0.0..1.0).contains(&random));
    let home = parse("{{ env.HOME }} {{ env.SHELL | default('sh') }}").render(&start());
    assert_eq!(home.unwrap().value, Json::from("/x sh"));
    // Other environments provide no random values.
    assert!(uuid.render(&environment_from_json("{}")).is_err());
}

#[test]
fn loop_variables() {
    let text = "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}\
                {{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}\
                {{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.nope }};{% endfor %}";
    let expected = "1032TrueFalse311a;2121FalseFalse3132b;3210FalseTrue311a;";
    assert_eq!(render_template(text, &environment_from_json(NAMES)).unwrap(), Json::from(expected));
    let changed = "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}";
    assert_eq!(
        render_template(changed, &environment_from_json("{}")).unwrap(),
        Json::from("True False True ")
    );
    let rendered = parse_template("{% for x in [1] %}{{ loop }}{% endfor %}")
        .render(&environment_from_json("{}"))
        .unwrap();
    let expected = r#"{"first":true,"index":1,"index0":0,"last":true,"length":1}"#;
    assert_eq!(rendered.value, Json::from(expected));
    assert_eq!(parse_json(rendered.value.as_str().unwrap()), parse_json(expected));
}
