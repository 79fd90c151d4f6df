//! Template errors and their positions.

use noetl_playbook::template::{Template, TemplateErrorKind, TemplatePlace};

/// Errors as `source text: message`.
fn template_errors(text: &str) -> Vec<String> {
    let errors = Template::parse(text, TemplatePlace::Run).expect_err(text);
    errors.iter().map(|error| format!("{}: {error}", &text[error.range.clone()])).collect()
}

#[test]
fn reports_syntax_errors() {
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
        ("{{ a.keys()() }}", "(: only functions and methods can be called"),
        ("{{ a['x']() }}", "(: only functions and methods can be called"),
        ("{{ 99999999999999999999 }}", "99999999999999999999: integer does not fit 64 bits"),
        ("{{ 1e999 }}", "1e999: number is out of range"),
        ("{{ 0xZZ }}", "0xZZ: number does not fit 64 bits"),
        (r"{{ '\ud800' }}", r"'\ud800': invalid escape sequence"),
        (r"{{ '\x00' }}", r"'\x00': text contains a NUL character"),
        ("{% if a %}", ": expected `{% elif %}` or `{% else %}` or `{% endif %}`, found the end"),
        ("{% if a %}{% endfor %}", "endfor: `endfor` has no matching statement to end or continue"),
        ("{% if %}{% endif %}", "%}: expected a value, found `%}`"),
        ("{% for x y %}{% endfor %}", "y: expected `in`, found `y`"),
        ("{% for 1 in y %}{% endfor %}", "1: expected a name, found a number"),
        ("{% set x %}", ": expected `{% endset %}`, found the end"),
        ("{% set x = %}", "%}: expected a value, found `%}`"),
        ("{% set ctx = 1 %}", "ctx: `ctx` cannot be assigned"),
        ("{% for keychain in x %}{% endfor %}", "keychain: `keychain` cannot be assigned"),
        ("{% set none = 1 %}", "none: `none` cannot be assigned"),
        ("{% set a.b = 1 %}", "a: `a` is not a namespace"),
        ("{% fi a %}", "fi: unknown statement 'fi'; did you mean 'if'"),
        ("{% xyzzy %}", "xyzzy: unknown statement 'xyzzy'"),
        ("{% %}", "%}: expected a statement, found `%}`"),
        ("{% raw %}", "{% raw %}: raw block is not closed; expected `{% endraw %}`"),
        ("{{ a }}{# b", "{#: comment is not closed; expected `#}`"),
        ("{{ x | join(1, 2, 3) }}", "3: unexpected argument; `join` takes d, attribute"),
        ("{{ x | join(sep=1) }}", "sep: unexpected argument; `join` takes d, attribute"),
        ("{{ x | join(1, d=2) }}", "d: argument of `join` is given twice"),
        ("{{ x | replace('a') }}", "replace: `replace` needs the argument `new`"),
        ("{{ x | upper(1) }}", "1: unexpected argument; `upper` takes no argument"),
        ("{{ x is eq }}", "eq: `eq` needs the argument `other`"),
        ("{{ x.get() }}", "get: `get` needs the argument `key`"),
        ("{{ range() }}", "range: `range` needs the argument `start`"),
        ("{{ range(1, step=2) }}", "range: `range` is missing an argument before a later one"),
        ("{{ now(1) }}", "1: unexpected argument; `now` takes no argument"),
        ("{{ x | map }}", "map: `map` needs the name of a filter or `attribute=`"),
        ("{{ x | map('map') }}", "map: `map` cannot apply `map`"),
        ("{{ x | select(y) }}", "y: `select` needs the name of a test in quotes"),
        ("{{ x | selectattr }}", "selectattr: `selectattr` needs an attribute"),
    ] {
        assert_eq!(template_errors(text), [expected], "{text}");
    }
}

#[test]
fn unknown_names_get_suggestions() {
    for (text, expected) in [
        ("{{ x | lenght }}", "lenght: unknown filter 'lenght'; did you mean 'length'"),
        ("{{ x | xmlattr }}", "xmlattr: unknown filter 'xmlattr'"),
        (
            "{{ x | selectatr('a') }}",
            "selectatr: unknown filter 'selectatr'; did you mean 'selectattr'",
        ),
        ("{{ x is definde }}", "definde: unknown test 'definde'; did you mean 'defined'"),
        ("{{ x is divisibleby 3 }}", "divisibleby: unknown test 'divisibleby'"),
        ("{{ rang(3) }}", "rang: unknown function 'rang'; did you mean 'range'"),
        ("{{ lipsum() }}", "lipsum: unknown function 'lipsum'"),
        ("{{ x.itms() }}", "itms: unknown method 'itms'; did you mean 'items'"),
        ("{{ x.append(1) }}", "append: unknown method 'append'"),
        ("{{ x | map('uper') }}", "uper: unknown filter 'uper'; did you mean 'upper'"),
        ("{{ x | select('equalto', 1) }}", "equalto: unknown test 'equalto'"),
    ] {
        assert_eq!(template_errors(text), [expected], "{text}");
    }
}

#[test]
fn rejects_forbidden_statements() {
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
            template_errors(text),
            [format!("{statement}: statement '{statement}' is not allowed")],
            "{text}"
        );
    }
    let recursive = "{% for x in l recursive %}{% endfor %}";
    assert_eq!(
        template_errors(recursive),
        ["recursive: statement 'for … recursive' is not allowed"]
    );
}

#[test]
fn random_functions_only_allowed_in_workload() {
    assert_eq!(
        template_errors("{{ random() }}"),
        ["random: 'random' may only be used in workload"]
    );
    assert_eq!(template_errors("{{ uuid() }}"), ["uuid: 'uuid' may only be used in workload"]);
    assert!(Template::parse("{{ random() ~ uuid() }}", TemplatePlace::Start).is_ok());
    // A value may have the same name.
    assert!(Template::parse("{{ env.x }} {{ random }}", TemplatePlace::Run).is_ok());
}

#[test]
fn reports_all_errors() {
    let text = "{{ a | uper }} {% include 'x' %} {{ uuid() | lowr }} {% macro f() %}{{ b is nan }}{% endmacro %}{{ c.d( }}";
    assert_eq!(
        template_errors(text),
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
fn rejects_nul() {
    for text in ["a\0b", "{{ a }}\0"] {
        let errors = Template::parse(text, TemplatePlace::Run).unwrap_err();
        assert!(
            matches!(&errors[0].kind, TemplateErrorKind::Syntax { reason } if reason.contains("NUL"))
        );
    }
}

#[test]
fn error_ranges_are_byte_offsets() {
    let text = "größe: {{ größe | uper }}";
    let errors = Template::parse(text, TemplatePlace::Run).unwrap_err();
    assert_eq!(&text[errors[0].range.clone()], "uper");
}
