//! Static facts about a template.

use noetl_playbook::template::{Template, TemplateFacts};

use crate::template_suite::support::parse_template;

fn template_reads(text: &str) -> Vec<String> {
    format_reads(parse_template(text).facts(), text)
}

/// Formats each read as its path and its source text. A `?` marks a possible local variable.
fn format_reads(facts: &TemplateFacts, text: &str) -> Vec<String> {
    facts
        .reads
        .iter()
        .map(|read| {
            let path = read.path.join("/");
            let written = &text[read.range.clone()];
            let maybe = if read.maybe_local { "?" } else { "" };
            format!("{path}{maybe} = {written}")
        })
        .collect()
}

#[test]
fn reads_are_roots_with_their_static_keys() {
    for (text, expected) in [
        ("{{ a }}", vec!["a = a"]),
        ("{{ steps.a.data }}", vec!["steps/a/data = steps.a.data"]),
        ("{{ steps['a-b'].data[0].x }}", vec!["steps/a-b/data = steps['a-b'].data"]),
        ("{{ keychain . pg [ \"user\" ] }}", vec!["keychain/pg/user = keychain . pg [ \"user\" ]"]),
        ("{{ a[b].c }}", vec!["b = b", "a = a"]),
        ("{{ a.b.get('x') }}", vec!["a/b = a.b"]),
        ("{{ a.b | default(c.d) }}", vec!["a/b = a.b", "c/d = c.d"]),
        ("{{ -a.b is eq c.d }}", vec!["a/b = a.b", "c/d = c.d"]),
        ("{{ x | sort(attribute='k', reverse=r) }}", vec!["x = x", "r = r"]),
        ("{{ dict(a=b, **c) }}", vec!["b = b", "c = c"]),
        ("{{ range(n) }}", vec!["n = n"]),
        ("{{ (a.b).c }}", vec!["a/b = a.b"]),
        ("{{ {'k': v}[w] }}", vec!["v = v", "w = w"]),
        ("{{ a if b else c }}", vec!["a = a", "b = b", "c = c"]),
        ("{{ a }} and {{ a.b }}", vec!["a = a", "a/b = a.b"]),
        ("no {% raw %}{{ a }}{% endraw %}", vec![]),
    ] {
        assert_eq!(template_reads(text), expected, "{text}");
    }
}

#[test]
fn variables_of_the_template_are_not_reads() {
    for (text, expected) in [
        (
            "{% for r in rows %}{{ r.id }}{{ loop.index }}{{ n }}{% endfor %}{{ r }}",
            vec!["rows = rows", "n = n", "r = r"],
        ),
        ("{{ x }}{% set x = x %}{{ x }}", vec!["x = x", "x = x"]),
        ("{% set a, b = c %}{{ a }}{{ b }}", vec!["c = c"]),
        ("{% for k, v in m if v %}{{ k }}{% endfor %}", vec!["m = m"]),
        ("{% if c %}{% set x = 1 %}{% endif %}{{ x.y }}", vec!["c = c", "x/y? = x.y"]),
        ("{% if c %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", vec!["c = c"]),
        (
            "{% if c %}{% set x = 1 %}{% elif d %}{% else %}{% set x = 2 %}{% endif %}{{ x }}",
            vec!["c = c", "d = d", "x? = x"],
        ),
        ("{% set ns = namespace(a=b) %}{% set ns.c = d %}{{ ns.c }}", vec!["b = b", "d = d"]),
        ("{% for a in l %}{% set t = a %}{% endfor %}{{ t }}", vec!["l = l", "t = t"]),
        ("{% set x %}{{ y }}{% endset %}{{ x }}", vec!["y = y"]),
    ] {
        assert_eq!(template_reads(text), expected, "{text}");
    }
}

#[test]
fn reads_name_ignores_locals_and_literals() {
    let template =
        parse_template("{{ output.x }}{% for event in l %}{{ event }}{% endfor %}{{ 'error' }}");
    assert!(template.reads_name("output"));
    assert!(template.reads_name("l"));
    assert!(!template.reads_name("event"));
    assert!(!template.reads_name("error"));
    let condition = Template::parse_condition("event.name == 'call.error' or not x").unwrap();
    assert!(condition.reads_name("event") && condition.reads_name("x"));
}

#[test]
fn finds_comparisons_of_different_types() {
    for (text, expected) in [
        ("'3' > 2", vec!["text number '3' > 2"]),
        ("2 == '3'", vec!["number text 2 == '3'"]),
        ("x | int == '3'", vec!["number text x | int == '3'"]),
        ("x | length > '3'", vec!["number text x | length > '3'"]),
        ("x | string < 3", vec!["text number x | string < 3"]),
        ("true == 1", vec!["bool number true == 1"]),
        ("[] == {}", vec!["list map [] == {}"]),
        ("1 < x | int < 'a'", vec!["number text x | int < 'a'"]),
        ("a ~ b == 1", vec!["text number a ~ b == 1"]),
        ("x | int('a') == 'a'", vec![]),
        ("x | default(1) == 'a'", vec![]),
        ("x == '3'", vec![]),
        ("1 == 1.5", vec![]),
        ("x | int == none", vec![]),
        ("'a' in [1]", vec![]),
        ("x + 1 == 'a'", vec![]),
    ] {
        let template = Template::parse_condition(text).unwrap();
        let found: Vec<_> = template
            .facts()
            .mismatches
            .iter()
            .map(|mismatch| {
                format!("{} {} {}", mismatch.left, mismatch.right, &text[mismatch.range.clone()])
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn finds_names_compared_with_event_name() {
    for (text, expected) in [
        ("event.name == 'call.done'", vec!["'call.done'"]),
        ("'step.done' != event['name']", vec!["'step.done'"]),
        ("event.name in ['a', \"b\", x]", vec!["'a'", "\"b\""]),
        ("event.name not in ('a', 'b')", vec!["'a'", "'b'"]),
        ("{{ x and event.name == 'a' }}", vec!["'a'"]),
        ("event.name == x", vec![]),
        ("event.kind == 'a'", vec![]),
        ("other.name == 'a'", vec![]),
        ("'a' in event.name", vec![]),
    ] {
        let template = Template::parse_condition(text).unwrap();
        let found: Vec<_> =
            template.facts().event_names.iter().map(|event| &text[event.range.clone()]).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn finds_output_ranges() {
    let text = "select '{{ a }}' from {{- t }}{% if x %}{{ 'y' }}{% endif %}";
    let outputs: Vec<_> = parse_template(text)
        .facts()
        .outputs
        .iter()
        .map(|range| text[range.clone()].to_owned())
        .collect();
    assert_eq!(outputs, ["{{ a }}", "{{- t }}", "{{ 'y' }}"]);
}
