//! `if`, `for`, `set`, raw blocks and comments.

use crate::template_suite::support::{assert_templates, environment_from_json, render_template};

const NAMES: &str = r#"{"l": [3, 1, 2], "m": {"b": 2, "a": 1}, "x": "outer", "t": true, "e": []}"#;

#[test]
fn if_statement() {
    assert_templates(
        NAMES,
        &[
            ("{% if t %}a{% endif %}", "\"a\""),
            ("{% if not t %}a{% else %}b{% endif %}", "\"b\""),
            ("{% if e %}a{% elif l %}b{% else %}c{% endif %}", "\"b\""),
            ("{% if e %}a{% elif missing %}b{% elif t %}c{% else %}d{% endif %}", "\"c\""),
            ("{% if t %}{% if e %}a{% else %}b{% endif %}{% endif %}", "\"b\""),
        ],
    );
}

#[test]
fn for_statement() {
    assert_templates(
        NAMES,
        &[
            ("{% for v in l %}{{ v }},{% endfor %}", "\"3,1,2,\""),
            ("{% for k in m %}{{ k }}{% endfor %}", "\"ab\""),
            ("{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", "\"a=1;b=2;\""),
            ("{% for k, v in m | items %}{{ k }}={{ v }};{% endfor %}", "\"a=1;b=2;\""),
            ("{% for (a, b), c in [[[1, 2], 3]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "\"123\""),
            (
                "{% for v in l if v > 1 %}{{ v }}{{ loop.index }}{{ loop.length }} {% endfor %}",
                "\"312 222 \"",
            ),
            ("{% for v in e %}a{% else %}none{% endfor %}", "\"none\""),
            ("{% for v in missing %}a{% else %}none{% endfor %}", "\"none\""),
            ("{% for v in l if v > 9 %}a{% else %}none{% endfor %}", "\"none\""),
            ("{% for c in 'ab' %}{{ c }}.{% endfor %}", "\"a.b.\""),
            (
                "{% for a in [1, 2] %}{% for b in [3] %}{{ a }}{{ b }}{{ loop.depth }} {% endfor %}{% endfor %}",
                "\"131 231 \"",
            ),
            (
                "{% for v in range(3) %}{{ v }}{% if not loop.last %},{% endif %}{% endfor %}",
                "\"0,1,2\"",
            ),
            (
                "{% for g in [{'c': 1, 'v': 2}, {'c': 1, 'v': 3}] | groupby('c') %}{{ g.grouper }}:{{ g.list | map(attribute='v') | join('+') }}{% endfor %}",
                "\"1:2+3\"",
            ),
            (
                "{% for c, r in [{'c': 1}, {'c': 2}] | groupby('c') %}{{ c }}{{ r | length }} {% endfor %}",
                "\"11 21 \"",
            ),
        ],
    );
    let error =
        render_template("{% for v in 5 %}{% endfor %}", &environment_from_json(NAMES)).unwrap_err();
    assert_eq!(error.to_string(), "a number has no items at line 1 column 13");
    let error =
        render_template("{% for a, b in [[1]] %}{% endfor %}", &environment_from_json(NAMES))
            .unwrap_err();
    assert_eq!(error.to_string(), "expected a list of 2 items to unpack at line 1 column 8");
}

#[test]
fn set_statement() {
    assert_templates(
        NAMES,
        &[
            ("{% set x = 1 %}{{ x }}", "\"1\""),
            ("{% set a, b = 1, 2 %}{{ a }}{{ b }}", "\"12\""),
            ("{% set a, b = [1, 2] %}{{ a }}{{ b }}", "\"12\""),
            ("{% set a = 1, 2 %}{{ a }}", "\"[1,2]\""),
            ("{% set x = x ~ '!' %}{{ x }}", "\"outer!\""),
            ("{% set a %}b{{ t }}{% endset %}{{ a }}{{ a | length }}", "\"bTrue5\""),
            ("{% set a | upper | trim %} b {% endset %}<{{ a }}>", "\"<B>\""),
            ("{% set a = now %}{{ a is defined }}", "\"False\""),
        ],
    );
}

#[test]
fn variables_are_scoped_to_iteration() {
    assert_templates(
        NAMES,
        &[
            ("{% for v in l %}{% set x = v %}{{ x }}{% endfor %}{{ x }}", "\"312outer\""),
            ("{% for v in l %}{{ x }}{% set x = v %}{% endfor %}", "\"outerouterouter\""),
            ("{% for x in l %}{{ x }}{% endfor %}{{ x }}", "\"312outer\""),
            // Assignments in the loop do not change an outer variable.
            ("{% set a = 1 %}{% for v in l %}{% set a = v %}{% endfor %}{{ a }}", "\"1\""),
            ("{% for v in l %}{{ loop.index }}{% endfor %}{{ loop.index }}", "\"123\""),
        ],
    );
}

#[test]
fn branches_share_outer_variables() {
    assert_templates(
        NAMES,
        &[
            ("{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "\"1\""),
            ("{% if e %}{% set x = 1 %}{% endif %}{{ x }}", "\"outer\""),
            ("{% if e %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "\"2\""),
            (
                "{% for v in [0, 1] %}{% if v %}{% set x = v %}{% endif %}{{ x }} {% endfor %}",
                "\"outer 1 \"",
            ),
            (
                "{% for v in [1, 0] %}{% if v %}{% set x = v %}{% endif %}{{ x }} {% endfor %}",
                "\"1 outer \"",
            ),
            (
                "{% set x = 'top' %}{% for v in [1, 0] %}{% if v %}{% set x = v %}{% endif %}{{ x }} {% endfor %}",
                "\"1 top \"",
            ),
        ],
    );
}

#[test]
fn raw_blocks_and_comments() {
    assert_templates(
        NAMES,
        &[
            ("{% raw %}{{ x }}{% if %}{# c #}{% endraw %}", r#""{{ x }}{% if %}{# c #}""#),
            ("a{% raw %}{% endraw %}b", "\"ab\""),
            ("a{# {{ x }} {% if %} #}b{{ t }}", "\"abTrue\""),
            ("{%raw%}{{{%endraw%}", "\"{{\""),
        ],
    );
}
