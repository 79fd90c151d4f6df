//! The same as an independent implementation of Jinja, wherever the two are meant to agree.
//!
//! They are not meant to agree on bools as numbers, on integers beyond 64 bits, on the printed form
//! of floats, bools and null, nor on lookups in null; expressions are made so that none of these
//! decides the outcome.

use minijinja::Environment;
use noetl_playbook::template::{MapScope, Place, Template};
use noetl_types::Json;
use noetl_types::json::parse;
use proptest::prelude::*;

use crate::support::{config, scope};

const NAMES: &str = r#"{
    "a": 7, "b": -3, "s": "The quick  brown fox", "t": "äöü-abc", "e": "",
    "nums": [5, 3, 8, 3, -1], "words": ["pear", "Apple", "fig"], "none_at_all": [],
    "m": {"k": {"x": [1, 2, {"y": "deep"}]}, "n": 4},
    "rows": [{"id": 2, "c": "b"}, {"id": 1, "c": "a"}, {"id": 3, "c": "a"}]
}"#;

fn reference() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Chainable);
    environment
}

fn context() -> minijinja::Value {
    serde_json::from_str(NAMES).unwrap()
}

/// What the reference yields, if it yields anything that JSON can hold.
fn expected(environment: &Environment<'_>, expression: &str) -> Option<Json> {
    let compiled = environment.compile_expression(expression).ok()?;
    let value = compiled.eval(context()).ok()?;
    parse(serde_json::to_string(&value).ok()?.as_bytes()).ok()
}

fn ours(names: &MapScope, expression: &str) -> Option<Json> {
    let template =
        Template::condition(expression).unwrap_or_else(|faults| panic!("{expression}: {faults:?}"));
    template.render(names).ok().map(|rendered| rendered.value)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Number,
    Text,
    Numbers,
    Bool,
}

/// Expressions of one type, from small ones up.
fn expression(kind: Kind, depth: u32) -> BoxedStrategy<String> {
    let leaf = match kind {
        Kind::Number => prop_oneof![
            (-20_i32..20).prop_map(|n| n.to_string()),
            Just("a".to_owned()),
            Just("b".to_owned()),
            Just("m.n".to_owned()),
            Just("m.k.x[1]".to_owned()),
            Just("rows[-1].id".to_owned()),
        ]
        .boxed(),
        Kind::Text => prop_oneof![
            "[a-cX ]{0,4}".prop_map(|text| format!("'{text}'")),
            Just("s".to_owned()),
            Just("t".to_owned()),
            Just("e".to_owned()),
            Just("m['k'].x[2].y".to_owned()),
        ]
        .boxed(),
        Kind::Numbers => prop_oneof![
            Just("nums".to_owned()),
            Just("none_at_all".to_owned()),
            (0_u32..6).prop_map(|n| format!("(range({n}) | list)")),
            prop::collection::vec(-9_i32..9, 0..4).prop_map(|items| format!("{items:?}")),
        ]
        .boxed(),
        Kind::Bool => prop_oneof![Just("true".to_owned()), Just("(a > 5)".to_owned())].boxed(),
    };
    if depth == 0 {
        return leaf;
    }
    let of = move |kind: Kind| expression(kind, depth - 1);
    let compound = match kind {
        Kind::Number => numbers(of),
        Kind::Text => texts(of),
        Kind::Numbers => lists(of),
        Kind::Bool => bools(of),
    };
    prop_oneof![1 => leaf, 3 => compound].boxed()
}

type Of<'o> = &'o dyn Fn(Kind) -> BoxedStrategy<String>;

fn numbers(of: impl Fn(Kind) -> BoxedStrategy<String>) -> BoxedStrategy<String> {
    let of: Of<'_> = &of;
    prop_oneof![
        (
            of(Kind::Number),
            prop::sample::select(vec!["+", "-", "*"]),
            of(Kind::Number)
        )
            .prop_map(|(left, op, right)| format!("({left} {op} {right})")),
        (
            of(Kind::Number),
            prop::sample::select(vec!["//", "%", "/"]),
            1_u32..9
        )
            .prop_map(|(left, op, right)| format!("({left} {op} {right})")),
        of(Kind::Number).prop_map(|n| format!("(-({n}))")),
        of(Kind::Number).prop_map(|n| format!("({n} | abs)")),
        of(Kind::Text).prop_map(|text| format!("({text} | length)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | length)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | sum)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | first | default(0))")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | max | default(0))")),
        (of(Kind::Numbers), -4_i32..4)
            .prop_map(|(list, at)| format!("({list}[{at}] | default(-1))")),
        (of(Kind::Number), of(Kind::Bool), of(Kind::Number))
            .prop_map(|(yes, test, no)| format!("({yes} if {test} else {no})")),
    ]
    .boxed()
}

fn texts(of: impl Fn(Kind) -> BoxedStrategy<String>) -> BoxedStrategy<String> {
    let of: Of<'_> = &of;
    prop_oneof![
        (of(Kind::Text), of(Kind::Text)).prop_map(|(left, right)| format!("({left} ~ {right})")),
        (of(Kind::Text), of(Kind::Text)).prop_map(|(left, right)| format!("({left} + {right})")),
        (of(Kind::Text), 0_u32..20).prop_map(|(text, n)| format!("({text} ~ {n})")),
        of(Kind::Text).prop_map(|text| format!("({text} | upper)")),
        of(Kind::Text).prop_map(|text| format!("({text} | lower)")),
        of(Kind::Text).prop_map(|text| format!("({text} | trim)")),
        of(Kind::Text).prop_map(|text| format!("({text} | reverse)")),
        of(Kind::Text).prop_map(|text| format!("({text} | replace('a', 'bb'))")),
        (of(Kind::Text), -5_i32..5, -5_i32..5)
            .prop_map(|(text, a, b)| format!("({text}[{a}:{b}])")),
        of(Kind::Text).prop_map(|text| format!("({text} | split(' ') | join('+'))")),
        of(Kind::Text).prop_map(|text| format!("({text} | list | join('-'))")),
        Just("(words | sort | join(','))".to_owned()),
        Just("(words | map('upper') | join(','))".to_owned()),
        (of(Kind::Text), 0_u32..3).prop_map(|(text, n)| format!("({text} * {n})")),
    ]
    .boxed()
}

fn lists(of: impl Fn(Kind) -> BoxedStrategy<String>) -> BoxedStrategy<String> {
    let of: Of<'_> = &of;
    prop_oneof![
        (of(Kind::Numbers), of(Kind::Numbers))
            .prop_map(|(left, right)| format!("({left} + {right})")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | sort)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | sort(reverse=true))")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | unique | list)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | reverse | list)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | select('odd') | list)")),
        (of(Kind::Numbers), -5_i32..9)
            .prop_map(|(list, n)| format!("({list} | reject('gt', {n}) | list)")),
        of(Kind::Numbers).prop_map(|list| format!("({list} | map('abs') | list)")),
        (of(Kind::Numbers), -5_i32..5, -5_i32..5, 1_i32..3)
            .prop_map(|(list, a, b, c)| format!("({list}[{a}:{b}:{c}])")),
        of(Kind::Number).prop_map(|n| format!("[{n}, 1]")),
        Just("(rows | map(attribute='id') | list)".to_owned()),
        Just("(rows | selectattr('c', 'eq', 'a') | map(attribute='id') | list)".to_owned()),
        Just("(rows | sort(attribute='c') | map(attribute='id') | list)".to_owned()),
    ]
    .boxed()
}

fn bools(of: impl Fn(Kind) -> BoxedStrategy<String>) -> BoxedStrategy<String> {
    let of: Of<'_> = &of;
    let compare = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    prop_oneof![
        (of(Kind::Number), compare(), of(Kind::Number))
            .prop_map(|(l, op, r)| format!("({l} {op} {r})")),
        (of(Kind::Text), compare(), of(Kind::Text))
            .prop_map(|(l, op, r)| format!("({l} {op} {r})")),
        (
            of(Kind::Numbers),
            prop::sample::select(vec!["==", "!="]),
            of(Kind::Numbers)
        )
            .prop_map(|(l, op, r)| format!("({l} {op} {r})")),
        (of(Kind::Number), of(Kind::Numbers)).prop_map(|(n, list)| format!("({n} in {list})")),
        (of(Kind::Number), of(Kind::Numbers)).prop_map(|(n, list)| format!("({n} not in {list})")),
        (of(Kind::Text), of(Kind::Text)).prop_map(|(l, r)| format!("({l} in {r})")),
        of(Kind::Bool).prop_map(|test| format!("(not {test})")),
        (of(Kind::Bool), of(Kind::Bool)).prop_map(|(l, r)| format!("({l} and {r})")),
        (of(Kind::Bool), of(Kind::Bool)).prop_map(|(l, r)| format!("({l} or {r})")),
        (of(Kind::Number), of(Kind::Number), of(Kind::Number))
            .prop_map(|(a, b, c)| format!("({a} < {b} <= {c})")),
        of(Kind::Number).prop_map(|n| format!("({n} is odd)")),
        of(Kind::Text).prop_map(|text| format!("({text} is startingwith 'a')")),
        of(Kind::Text).prop_map(|text| format!("({text} is string)")),
    ]
    .boxed()
}

fn any_expression() -> impl Strategy<Value = String> {
    prop_oneof![
        expression(Kind::Number, 3),
        expression(Kind::Text, 3),
        expression(Kind::Numbers, 3),
        expression(Kind::Bool, 3),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn expressions_yield_the_same(expression in any_expression()) {
        let environment = reference();
        prop_assert_eq!(ours(&scope(NAMES), &expression), expected(&environment, &expression), "{}", expression);
    }
}

#[test]
fn templates_yield_the_same() {
    let environment = reference();
    let names = scope(NAMES);
    for text in [
        "a {{ a }} b",
        "  {{- a -}}  x",
        "{% for n in nums %}{{ n }}{% if not loop.last %}, {% endif %}{% endfor %}",
        "{% for n in nums if n > 0 %}{{ loop.index }}:{{ n }} {% else %}none{% endfor %}",
        "{% for n in none_at_all %}{{ n }}{% else %}none{% endfor %}",
        "{% for k, v in m | items %}{{ k }};{% endfor %}",
        "{% set x = 1 %}{% for n in nums %}{% set x = x + n %}{{ x }} {% endfor %}{{ x }}",
        "{% set ns = namespace(x=0) %}{% for n in nums %}{% set ns.x = ns.x + n %}{% endfor %}{{ ns.x }}",
        "{% if a > 5 %}\n  big\n{% elif a > 2 %}\n  mid\n{% else %}\n  small\n{% endif %}\n",
        "{%- if a > 5 -%}\n  big\n{%- endif -%}\n x",
        "{% raw %}{{ a }}{% endraw %}{# gone #}{{ b }}",
        "{% set block %}<{{ a }}>{% endset %}{{ block }}{{ block | length }}",
        "{% set block | upper %}{{ s }}{% endset %}{{ block }}",
        "{% for r in rows %}{{ loop.cycle('odd', 'even') }}{{ r.id }}{{ r.c }}{% endfor %}",
        "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.depth }}{{ loop.revindex }} {% endfor %}{% endfor %}",
        "{{ 'a' 'b' }}{{ \"it's\" }}{{ 'x\\ty' }}",
        "{{ words | first }} {{ words | last }} {{ words[1] }} {{ words[::-1] | join }}",
        "{{ missing }}{{ missing.x.y }}{{ missing | default('d') }}",
        "{% for r in rows | groupby('c') %}{{ r.grouper }}={{ r.list | length }} {% endfor %}",
        "{{ dict(a=1, b=2) | items | length }}{{ a if b > 0 else 'neg' }}",
        "{% if missing is defined %}x{% else %}y{% endif %}",
        "line\n{{ a }}\n\n",
        "{%+ if true %} keep {%+ endif %}",
        "{{ {'k': {'z': 1}}.k.z }}{{ (1, 2)[0] }}{{ [1, 2][1] }}",
    ] {
        // A single output keeps its type here, which the reference has no notion of.
        let text = format!("{text}{{{{ '' }}}}");
        let ours = Template::parse(&text, Place::Run)
            .unwrap()
            .render(&names)
            .unwrap()
            .value;
        let theirs = environment.render_str(&text, context()).unwrap();
        assert_eq!(ours, Json::from(theirs), "{text}");
    }
}
