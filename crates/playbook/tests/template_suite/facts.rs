//! What is known of a template without rendering it.

use noetl_playbook::template::{Facts, Template};

use crate::support::template;

fn reads(text: &str) -> Vec<String> {
    read_paths(template(text).facts(), text)
}

/// Paths with the text that they stand for, where it differs.
fn read_paths(facts: &Facts, text: &str) -> Vec<String> {
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
        (
            "{{ steps['a-b'].data[0].x }}",
            vec!["steps/a-b/data = steps['a-b'].data"],
        ),
        (
            "{{ keychain . pg [ \"user\" ] }}",
            vec!["keychain/pg/user = keychain . pg [ \"user\" ]"],
        ),
        ("{{ a[b].c }}", vec!["b = b", "a = a"]),
        ("{{ a.b.get('x') }}", vec!["a/b = a.b"]),
        ("{{ a.b | default(c.d) }}", vec!["a/b = a.b", "c/d = c.d"]),
        ("{{ -a.b is eq c.d }}", vec!["a/b = a.b", "c/d = c.d"]),
        (
            "{{ x | sort(attribute='k', reverse=r) }}",
            vec!["x = x", "r = r"],
        ),
        ("{{ dict(a=b, **c) }}", vec!["b = b", "c = c"]),
        ("{{ range(n) }}", vec!["n = n"]),
        ("{{ (a.b).c }}", vec!["a/b = a.b"]),
        ("{{ {'k': v}[w] }}", vec!["v = v", "w = w"]),
        ("{{ a if b else c }}", vec!["a = a", "b = b", "c = c"]),
        ("{{ a }} and {{ a.b }}", vec!["a = a", "a/b = a.b"]),
        ("no {% raw %}{{ a }}{% endraw %}", vec![]),
    ] {
        assert_eq!(reads(text), expected, "{text}");
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
        (
            "{% if c %}{% set x = 1 %}{% endif %}{{ x.y }}",
            vec!["c = c", "x/y? = x.y"],
        ),
        (
            "{% if c %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}",
            vec!["c = c"],
        ),
        (
            "{% if c %}{% set x = 1 %}{% elif d %}{% else %}{% set x = 2 %}{% endif %}{{ x }}",
            vec!["c = c", "d = d", "x? = x"],
        ),
        (
            "{% set ns = namespace(a=b) %}{% set ns.c = d %}{{ ns.c }}",
            vec!["b = b", "d = d"],
        ),
        (
            "{% for a in l %}{% set t = a %}{% endfor %}{{ t }}",
            vec!["l = l", "t = t"],
        ),
        ("{% set x %}{{ y }}{% endset %}{{ x }}", vec!["y = y"]),
    ] {
        assert_eq!(reads(text), expected, "{text}");
    }
}

#[test]
fn mentions() {
    let template =
        template("{{ output.x }}{% for event in l %}{{ event }}{% endfor %}{{ 'error' }}");
    assert!(template.mentions("output"));
    assert!(template.mentions("l"));
    assert!(!template.mentions("event"));
    assert!(!template.mentions("error"));
    let condition = Template::condition("event.name == 'call.error' or not x").unwrap();
    assert!(condition.mentions("event") && condition.mentions("x"));
}

#[test]
fn comparisons_of_different_types() {
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
        let facts = Template::condition(text).unwrap();
        let found: Vec<_> = facts
            .facts()
            .mismatches
            .iter()
            .map(|found| {
                format!(
                    "{} {} {}",
                    found.left,
                    found.right,
                    &text[found.range.clone()]
                )
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn names_that_event_name_is_compared_with() {
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
        let template = Template::condition(text).unwrap();
        let found: Vec<_> = template
            .facts()
            .event_names
            .iter()
            .map(|found| &text[found.range.clone()])
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn outputs() {
    let text = "select '{{ a }}' from {{- t }}{% if x %}{{ 'y' }}{% endif %}";
    let outputs: Vec<_> = template(text)
        .facts()
        .outputs
        .iter()
        .map(|range| text[range.clone()].to_owned())
        .collect();
    assert_eq!(outputs, ["{{ a }}", "{{- t }}", "{{ 'y' }}"]);
}
