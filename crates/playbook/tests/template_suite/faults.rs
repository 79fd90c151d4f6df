//! What is wrong with a text, and where.

use noetl_playbook::template::{FaultKind, Place, Template};

/// Faults as `text they stand at: what they say`.
fn faults(text: &str) -> Vec<String> {
    let found = Template::parse(text, Place::Run).expect_err(text);
    found
        .iter()
        .map(|fault| format!("{}: {fault}", &text[fault.range.clone()]))
        .collect()
}

#[test]
fn syntax() {
    for (text, expected) in [
        ("{{ a. }}", "}}: expected a name or an index, found `}}`"),
        ("{{ }}", "}}: expected a value, found `}}`"),
        ("{{ a", ": expected `}}`, found the end"),
        ("{{ a b }}", "b: expected `}}`, found `b`"),
        ("{{ (a }}", "}: expected `,`, found `}`"),
        ("{{ [1, 2 }}", "}: expected `,`, found `}`"),
        ("{{ {'a' 1} }}", "1: expected `:`, found a number"),
        ("{{ a | }}", "}}: expected the name of a filter, found `}}`"),
        ("{{ a is }}", "}}: expected the name of a test, found `}}`"),
        ("{{ 'abc }}", "'abc }}: quoted text is not closed"),
        ("{{ a ? b }}", "?: unexpected character `?`"),
        ("{{ a && b }}", "&: unexpected character `&`"),
        ("{{ a = b }}", "=: expected `}}`, found `=`"),
        ("{{ a and }}", "}}: expected a value, found `}}`"),
        ("{{ not }}", "}}: expected a value, found `}}`"),
        ("{{ a not b }}", "b: expected `in`, found `b`"),
        ("{{ a[1 }}", "}: expected `]` or `:`, found `}`"),
        (
            "{{ a.keys()() }}",
            "(: only functions and methods can be called",
        ),
        (
            "{{ a['x']() }}",
            "(: only functions and methods can be called",
        ),
        (
            "{{ 99999999999999999999 }}",
            "99999999999999999999: integer does not fit 64 bits",
        ),
        ("{{ 1e999 }}", "1e999: number is out of range"),
        ("{{ 0xZZ }}", "0xZZ: not a number of 64 bits"),
        (r"{{ '\ud800' }}", r"'\ud800': escape is not a character"),
        (r"{{ '\x00' }}", r"'\x00': text contains a NUL character"),
        (
            "{% if a %}",
            ": expected `{% elif %}` or `{% else %}` or `{% endif %}`, found the end",
        ),
        (
            "{% if a %}{% endfor %}",
            "endfor: `endfor` has nothing to end or continue",
        ),
        ("{% if %}{% endif %}", "%}: expected a value, found `%}`"),
        ("{% for x y %}{% endfor %}", "y: expected `in`, found `y`"),
        (
            "{% for 1 in y %}{% endfor %}",
            "1: expected a name, found a number",
        ),
        ("{% set x %}", ": expected `{% endset %}`, found the end"),
        ("{% set x = %}", "%}: expected a value, found `%}`"),
        ("{% set ctx = 1 %}", "ctx: `ctx` cannot be assigned"),
        (
            "{% for keychain in x %}{% endfor %}",
            "keychain: `keychain` cannot be assigned",
        ),
        ("{% set none = 1 %}", "none: `none` cannot be assigned"),
        ("{% set a.b = 1 %}", "a: `a` is not a namespace"),
        (
            "{% fi a %}",
            "fi: unknown statement 'fi'; did you mean 'if'",
        ),
        ("{% xyzzy %}", "xyzzy: unknown statement 'xyzzy'"),
        ("{% %}", "%}: expected a statement, found `%}`"),
        (
            "{% raw %}",
            "{% raw %}: raw block is not closed; expected `{% endraw %}`",
        ),
        ("{{ a }}{# b", "{#: comment is not closed; expected `#}`"),
        (
            "{{ x | join(1, 2, 3) }}",
            "3: unexpected argument; `join` takes d, attribute",
        ),
        (
            "{{ x | join(sep=1) }}",
            "sep: unexpected argument; `join` takes d, attribute",
        ),
        (
            "{{ x | join(1, d=2) }}",
            "d: argument of `join` is given twice",
        ),
        (
            "{{ x | replace('a') }}",
            "replace: `replace` needs the argument `new`",
        ),
        (
            "{{ x | upper(1) }}",
            "1: unexpected argument; `upper` takes no argument",
        ),
        ("{{ x is eq }}", "eq: `eq` needs the argument `other`"),
        ("{{ x.get() }}", "get: `get` needs the argument `key`"),
        ("{{ range() }}", "range: `range` needs the argument `start`"),
        (
            "{{ range(1, step=2) }}",
            "range: `range` lacks an argument before another",
        ),
        (
            "{{ now(1) }}",
            "1: unexpected argument; `now` takes no argument",
        ),
        (
            "{{ x | map }}",
            "map: `map` needs the name of a filter or `attribute=`",
        ),
        ("{{ x | map('map') }}", "map: `map` cannot apply `map`"),
        (
            "{{ x | select(y) }}",
            "y: `select` needs the name of a test in quotes",
        ),
        (
            "{{ x | selectattr }}",
            "selectattr: `selectattr` needs an attribute",
        ),
    ] {
        assert_eq!(faults(text), [expected], "{text}");
    }
}

#[test]
fn unknown_words() {
    for (text, expected) in [
        (
            "{{ x | lenght }}",
            "lenght: unknown filter 'lenght'; did you mean 'length'",
        ),
        ("{{ x | xmlattr }}", "xmlattr: unknown filter 'xmlattr'"),
        (
            "{{ x | selectatr('a') }}",
            "selectatr: unknown filter 'selectatr'; did you mean 'selectattr'",
        ),
        (
            "{{ x is definde }}",
            "definde: unknown test 'definde'; did you mean 'defined'",
        ),
        (
            "{{ x is divisibleby 3 }}",
            "divisibleby: unknown test 'divisibleby'",
        ),
        (
            "{{ rang(3) }}",
            "rang: unknown function 'rang'; did you mean 'range'",
        ),
        ("{{ lipsum() }}", "lipsum: unknown function 'lipsum'"),
        (
            "{{ x.itms() }}",
            "itms: unknown method 'itms'; did you mean 'items'",
        ),
        ("{{ x.append(1) }}", "append: unknown method 'append'"),
        (
            "{{ x | map('uper') }}",
            "uper: unknown filter 'uper'; did you mean 'upper'",
        ),
        (
            "{{ x | select('equalto', 1) }}",
            "equalto: unknown test 'equalto'",
        ),
    ] {
        assert_eq!(faults(text), [expected], "{text}");
    }
}

#[test]
fn forbidden_statements() {
    for (text, statement) in [
        ("{% include 'x' %}", "include"),
        ("{% import 'x' as y %}", "import"),
        ("{% from 'x' import y %}", "from"),
        ("{% extends 'x' %}", "extends"),
        ("{% macro f(a) %}b{% endmacro %}", "macro"),
        ("{% call f() %}b{% endcall %}", "call"),
        ("{% block b %}c{% endblock %}", "block"),
        ("{% with a = 1 %}b{% endwith %}", "with"),
        ("{% filter upper %}b{% endfilter %}", "filter"),
        ("{% autoescape true %}b{% endautoescape %}", "autoescape"),
        ("{% do x.append(1) %}", "do"),
        ("{% for x in l %}{% break %}{% endfor %}", "break"),
        ("{%- include 'x' -%}", "include"),
    ] {
        assert_eq!(
            faults(text),
            [format!(
                "{statement}: statement '{statement}' is not allowed"
            )],
            "{text}"
        );
    }
    let recursive = "{% for x in l recursive %}{% endfor %}";
    assert_eq!(
        faults(recursive),
        ["recursive: statement 'for … recursive' is not allowed"]
    );
}

#[test]
fn chance_outside_of_the_start() {
    assert_eq!(
        faults("{{ random() }}"),
        ["random: 'random' may only be used in workload"]
    );
    assert_eq!(
        faults("{{ uuid() }}"),
        ["uuid: 'uuid' may only be used in workload"]
    );
    assert!(Template::parse("{{ random() ~ uuid() }}", Place::Start).is_ok());
    // A playbook may have a value of that name.
    assert!(Template::parse("{{ env.x }} {{ random }}", Place::Run).is_ok());
}

#[test]
fn every_fault_is_reported() {
    let text = "{{ a | uper }} {% include 'x' %} {{ uuid() | lowr }} {% macro f() %}{{ b is nan }}{% endmacro %}{{ c.d( }}";
    assert_eq!(
        faults(text),
        [
            "uper: unknown filter 'uper'; did you mean 'upper'",
            "include: statement 'include' is not allowed",
            "uuid: 'uuid' may only be used in workload",
            "lowr: unknown filter 'lowr'; did you mean 'lower'",
            "macro: statement 'macro' is not allowed",
            "nan: unknown test 'nan'; did you mean 'none'",
            "}: expected a value, found `}`",
        ]
    );
}

#[test]
fn a_nul_is_refused() {
    for text in ["a\0b", "{{ a }}\0"] {
        let found = Template::parse(text, Place::Run).unwrap_err();
        assert!(matches!(&found[0].kind, FaultKind::Syntax { reason } if reason.contains("NUL")));
    }
}

#[test]
fn ranges_are_bytes_of_the_text() {
    let text = "größe: {{ größe | uper }}";
    let found = Template::parse(text, Place::Run).unwrap_err();
    assert_eq!(&text[found[0].range.clone()], "uper");
}
