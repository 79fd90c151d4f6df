//! Templates cannot exceed their limits.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test helper fails by panicking"
)]

use noetl_playbook::template::{
    FuelBudget, MapEnvironment, ParseOptions, RenderError, RenderErrorKind, RenderLimit, Template,
    TemplateLimits, TemplatePlace,
};
use noetl_types::Json;
use proptest::prelude::*;

/// Peak memory that a render may use.
const MAX_RENDER_BYTES: u64 = 64 << 20;

/// Renders a template and checks its peak memory.
fn render_measured(text: &str, environment: &MapEnvironment) -> Result<Json, RenderError> {
    let template = Template::parse(text, TemplatePlace::Run)
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let mut outcome = None;
    let allocations = allocation_counter::measure(|| outcome = Some(template.render(environment)));
    assert!(
        allocations.bytes_max < MAX_RENDER_BYTES,
        "{text}: {} MiB",
        allocations.bytes_max >> 20
    );
    outcome.expect("rendered").map(|rendered| rendered.value)
}

fn exceeded_limit(text: &str, environment: &MapEnvironment) -> RenderLimit {
    match render_measured(text, environment) {
        Err(RenderError { kind: RenderErrorKind::Limit(limit), .. }) => limit,
        Err(error) => panic!("{text}: {error}"),
        Ok(_) => panic!("{text} should exceed a limit"),
    }
}

/// A template that applies `step` to a value `times` times.
fn doubling_template(times: u32, start: &str, step: &str, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}) %}}{{% for i in range({times}) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ {end} }}}}"
    )
}

#[test]
fn stops_memory_bombs() {
    let texts = [
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000000 * 'xyz' }}",
        "{{ 'x' * 18446744073709551615 }}",
        "{{ [0] * 1000000000 }}",
        "{{ [0] * 18446744073709551615 }}",
        "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
        "{{ range(100000) | join('x' * 1000000) }}",
        "{{ ('x' * 100000) | list | join('x' * 10000) }}",
        "{{ ('a,' * 7000000) | split(',') | length }}",
        "{{ ('x' * 16000000) | list | length }}",
        "{{ (' ' * 16000000) | urlencode }}",
        "{{ ('x' * 16000000) | b64encode | length }}",
        "{{ ('ŉ' * 8000000) | upper | length }}",
        "{{ ('ŉ' * 8000000) | title | length }}",
        "{{ ('\u{1}' * 8000000) | tojson | length }}",
        "{{ ('[' ~ '[],' * 5000000 ~ '[]]') | fromjson | length }}",
        "{{ ('[' ~ '1,' * 7000000 ~ '1]') | fromjson | length }}",
        "{{ [range(100000)] * 100000 }}",
        "{{ [[range(100000)] * 1000] * 1000 }}",
        "{{ ([['x' * 1000000] * 1000]) | tojson | length }}",
        "{{ ([range(1000)] * 1000) | tojson(16) | length }}",
        "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% for i in range(1000) %}{{ range(1000) }}{% endfor %}",
        "{% set a %}{% for i in range(100000) %}{{ 'x' * 100 }}{% endfor %}{% endset %}{% set b = a ~ a %}{% set c = a ~ b %}{{ c }}",
        "{{ ('x' * 15000000)[::-1] | length }}",
        "{{ ('x' * 10000000) | reverse | upper | lower | trim | reverse | length }}",
        "{{ ([{'k': 1}] * 1000000) | groupby('k') | length }}",
        "{{ ([1] * 1000000) | sort | length }}",
        "{{ ((['x' * 1000] * 1000) * 100 ~ '') | length }}",
        "{{ [['x' * 1000] * 20000] | join | length }}",
    ];
    for text in texts {
        let limit = exceeded_limit(text, &MapEnvironment::new());
        assert!(
            matches!(limit, RenderLimit::Memory | RenderLimit::Output | RenderLimit::Fuel),
            "{text}: {limit:?}"
        );
    }
}

#[test]
fn stops_repeated_doubling() {
    for (start, step, end) in [
        ("'x'", "ns.x ~ ns.x", "ns.x | length"),
        ("'x'", "ns.x + ns.x", "ns.x | length"),
        ("'x'", "ns.x * 2", "ns.x | length"),
        ("'x'", "ns.x | replace('x', 'xx')", "ns.x | length"),
        ("'x'", "[ns.x, ns.x] | join", "ns.x | length"),
        ("[1]", "ns.x + ns.x", "ns.x | length"),
        ("[1]", "ns.x * 2", "ns.x | length"),
        ("'\"'", "ns.x | tojson | tojson", "ns.x | length"),
        ("'x'", "ns.x | b64encode ~ ns.x", "ns.x | length"),
        ("{'a': 1}", "dict(ns.x, b=ns.x)", "ns.x | length"),
        ("[1]", "[ns.x]", "ns.x"),
        ("{'a': 1}", "{'a': ns.x}", "ns.x"),
        ("{'a': 1}", "dict(a=ns.x)", "ns.x"),
        ("{'a': 1}", "ns.x | items", "ns.x | length"),
    ] {
        // `items` of a list is an error, so this step wraps the list in a map.
        let step = if step == "ns.x | items" { "{'a': ns.x | items}" } else { step };
        let text = doubling_template(200, start, step, end);
        let limit = exceeded_limit(&text, &MapEnvironment::new());
        assert!(
            matches!(
                limit,
                RenderLimit::Memory
                    | RenderLimit::Output
                    | RenderLimit::Fuel
                    | RenderLimit::Nesting
            ),
            "{text}: {limit:?}"
        );
    }
}

/// A value that shares its parts is small in memory but exponentially large when printed.
#[test]
fn limits_count_shared_parts() {
    for end in [
        "ns.x", "ns.x | tojson | length", "ns.x | tojson(2) | length", "ns.x ~ ''", "'' ~ ns.x",
        "[ns.x] | join", "ns.x | string | length", "ns.x == (ns.x | list)", "ns.x | sort | length",
        "ns.x | unique | length", "ns.x in [[ns.x]]", "ns.x | sha256", "ns.x | upper | length",
        "{'a': ns.x}",
    ] {
        let text = doubling_template(40, "[1]", "[ns.x, ns.x]", end);
        let limit = exceeded_limit(&text, &MapEnvironment::new());
        assert!(
            matches!(limit, RenderLimit::Fuel | RenderLimit::Output | RenderLimit::Memory),
            "{text}: {limit:?}"
        );
    }
}

#[test]
fn stops_repeated_scans_of_long_texts() {
    let big = Json::from("x".repeat(4_000_000));
    let twin = Json::from("x".repeat(4_000_000));
    let limits = TemplateLimits { fuel: 100_000, ..TemplateLimits::default() };
    let environment =
        MapEnvironment::new().with_name("a", big).with_name("b", twin).with_limits(limits);
    for text in [
        "{{ ([a, b] * 1000) | sort(case_sensitive=true) | length }}",
        "{{ ([a, b] * 1000) | unique(case_sensitive=true) | length }}",
        "{{ ([a, b] * 1000) | max(case_sensitive=true) | length }}",
        "{% for i in range(1000) %}{{ a == b }}{% endfor %}",
        "{% for i in range(1000) %}{{ 'y' in a }}{% endfor %}",
        "{% for i in range(1000) %}{{ a | length }}{% endfor %}",
        "{% for i in range(1000) %}{{ a.startswith(b) }}{% endfor %}",
        "{% for i in range(1000) %}{{ a[3999999] }}{% endfor %}",
        "{% for i in range(1000) %}{{ a | trim | length }}{% endfor %}",
        "{% for i in range(1000) %}{{ (a | sha256)[0] }}{% endfor %}",
    ] {
        let limit = exceeded_limit(text, &environment);
        assert!(matches!(limit, RenderLimit::Fuel | RenderLimit::Memory), "{text}: {limit:?}");
    }
}

#[test]
fn evaluation_is_limited_by_fuel() {
    let nested = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    for text in [
        nested,
        "{% for a in range(100000) %}{% for b in range(100) %}{% set x = b %}{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{{ range(1000) | sum }}{% endfor %}",
        "{% for a in range(100000) %}{% if range(1000) | select('odd') %}{% endif %}{% endfor %}",
        "{% for a in range(100000) %}{{ 5 in range(1000) | list }}{% endfor %}",
    ] {
        assert!(
            matches!(
                exceeded_limit(text, &MapEnvironment::new()),
                RenderLimit::Fuel | RenderLimit::Memory
            ),
            "{text}"
        );
    }
    assert_eq!(exceeded_limit("{{ range(100001) }}", &MapEnvironment::new()), RenderLimit::Range);
    assert_eq!(
        exceeded_limit("{{ range(0, 18446744073709551615) }}", &MapEnvironment::new()),
        RenderLimit::Range
    );
}

#[test]
fn limits_are_configurable() {
    let limits = TemplateLimits { fuel: 50, ..TemplateLimits::default() };
    let environment = MapEnvironment::new().with_limits(limits);
    assert_eq!(
        exceeded_limit("{% for i in range(100) %}{% endfor %}", &environment),
        RenderLimit::Fuel
    );
    assert!(render_measured("{{ 1 + 1 }}", &environment).is_ok());

    let limits = TemplateLimits { output: 10, ..TemplateLimits::default() };
    let environment =
        MapEnvironment::new().with_limits(limits).with_name("x", Json::from("12345678901"));
    assert_eq!(exceeded_limit("{{ 'x' * 11 }}", &environment), RenderLimit::Output);
    assert_eq!(exceeded_limit("a{{ 'x' * 10 }}", &environment), RenderLimit::Output);
    assert_eq!(exceeded_limit("{{ [x] }}", &environment), RenderLimit::Output);
    assert!(render_measured("{{ 'x' * 10 }}", &environment).is_ok());
    // Values of the environment do not count as output of the template.
    assert!(render_measured("{{ x }}", &environment).is_ok());

    let limits = TemplateLimits { range: 3, ..TemplateLimits::default() };
    let environment = MapEnvironment::new().with_limits(limits);
    assert_eq!(exceeded_limit("{{ range(4) }}", &environment), RenderLimit::Range);
    assert!(render_measured("{{ range(3) }}", &environment).is_ok());

    let limits = TemplateLimits { nesting: 2, ..TemplateLimits::default() };
    let environment =
        MapEnvironment::new().with_limits(limits).with_name("x", Json::list([Json::list([])]));
    assert_eq!(exceeded_limit("{{ [x] }}", &environment), RenderLimit::Nesting);
    assert!(render_measured("{{ [x[0]] }}", &environment).is_ok());

    let limits = TemplateLimits { memory: 1000, ..TemplateLimits::default() };
    let environment = MapEnvironment::new().with_limits(limits);
    assert_eq!(exceeded_limit("{{ [1] * 100 }}", &environment), RenderLimit::Memory);
}

#[test]
fn allows_large_results_within_limits() {
    let text = "{% for i in range(1000) %}{{ 'x' * 16000 }}{% endfor %}";
    let rendered = render_measured(text, &MapEnvironment::new()).unwrap();
    assert_eq!(rendered.as_str().unwrap().len(), 16_000_000);
    let rendered = render_measured("{{ 'x' * 16000000 }}", &MapEnvironment::new()).unwrap();
    assert_eq!(rendered.as_str().unwrap().len(), 16_000_000);
    let rows = Json::list((0..50_000).map(|id| Json::object([("id", Json::from(id))])));
    let environment = MapEnvironment::new().with_name("rows", rows);
    let text =
        "{{ rows | selectattr('id', 'odd') | map(attribute='id') | sort(reverse=true) | first }}";
    assert_eq!(render_measured(text, &environment).unwrap(), Json::from(49_999));
    assert_eq!(
        render_measured("{{ rows | tojson | fromjson | length }}", &environment).unwrap(),
        Json::from(50_000)
    );
}

/// Runs a closure on a small stack. Unoptimized builds need a larger one.
fn run_on_small_stack(run: impl FnOnce() + Send + 'static) {
    let bytes = if cfg!(debug_assertions) { 1 << 21 } else { 1 << 19 };
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn rejects_deeply_nested_templates() {
    let many = 100_000;
    let texts = [
        "(".repeat(many),
        "[".repeat(many),
        "{'a':".repeat(many),
        "not ".repeat(many),
        "-".repeat(many),
        "+ -".repeat(many),
        "a if b else ".repeat(many),
        "a[".repeat(many),
        "x.get(".repeat(many),
        "range(".repeat(many),
        "a|d(".repeat(many),
        "a is eq -".repeat(many),
        "(((a)|d(".repeat(many),
        "a and not ".repeat(many),
    ];
    run_on_small_stack(move || {
        for text in texts {
            for text in [format!("{{{{ {text} }}}}"), format!("{{% if {text} %}}")] {
                let errors = Template::parse(&text, TemplatePlace::Run).unwrap_err();
                assert_eq!(errors.len(), 1, "{}", &text[..40]);
            }
        }
        for open in ["{% if a %}", "{% for a in b %}", "{% set a %}"] {
            let errors = Template::parse(&open.repeat(many), TemplatePlace::Run).unwrap_err();
            assert_eq!(errors[0].to_string(), "nested deeper than 64 levels");
        }
    });
}

#[test]
fn allows_nesting_up_to_limit() {
    let depth = 63;
    let texts = [
        format!("{}1{}", "(".repeat(depth), ")".repeat(depth)),
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth)),
        format!("{}1", "not ".repeat(depth)),
        format!("{}1", "-".repeat(depth)),
        format!("{}1", "1 if false else ".repeat(depth)),
        format!("{}1{}", "(not 1 == 1 + 1 ~ 1 * 1 ** (".repeat(20), "))".repeat(20)),
        format!("{}0{}", "[0][".repeat(depth), "]".repeat(depth)),
        format!("{}1{}", "1|d(".repeat(depth), ")".repeat(depth)),
    ];
    run_on_small_stack(move || {
        for text in texts {
            let template = Template::parse_condition(&text)
                .unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
            drop(template.render(&MapEnvironment::new()));
        }
        let blocks = 62;
        let text = format!("{}x{}", "{% if true %}".repeat(blocks), "{% endif %}".repeat(blocks));
        let template = Template::parse(&text, TemplatePlace::Run).unwrap();
        assert_eq!(template.render(&MapEnvironment::new()).unwrap().value, Json::from("x"));
    });
}

#[test]
fn long_chains_use_little_stack() {
    let many = 4_000;
    let texts = [
        format!("1{}", " + 1".repeat(many)),
        format!("1{}", " ~ 1".repeat(many)),
        format!("1{}", " and 1".repeat(many)),
        format!("0{}", " or 0".repeat(many)),
        format!("1{}", " < 2".repeat(many)),
        format!("a{}", ".b".repeat(many)),
        format!("a{}", "[0]".repeat(many / 2)),
        format!("1{}", " | abs".repeat(many)),
        format!("1{}", " is not odd".repeat(many / 2)),
        format!("[{}]", "1, ".repeat(many)),
        format!("{{{}}}", "1: 2, ".repeat(many / 2)),
        format!("dict({})", "a=1, ".repeat(many / 2)),
        format!("1{}", " ** 1".repeat(many)),
        "'a' ".repeat(many),
    ];
    run_on_small_stack(move || {
        for text in texts {
            let template =
                Template::parse_condition(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
            template.render(&MapEnvironment::new()).unwrap();
        }
    });
}

#[test]
fn rejects_long_expressions() {
    let text = format!("{{{{ 1{} }}}}", " + 1".repeat(5_000));
    let errors = Template::parse(&text, TemplatePlace::Run).unwrap_err();
    assert_eq!(errors[0].to_string(), "expression has more than 10000 tokens");
    // This limit applies to each expression, not to the text.
    let text = "{{ 1 + 1 }}".repeat(10_000);
    assert!(Template::parse(&text, TemplatePlace::Run).is_ok());
    // The limit of the text is ten times as large.
    let errors = Template::parse(&text.repeat(3), TemplatePlace::Run).unwrap_err();
    assert_eq!(errors[0].to_string(), "text has more than 100000 tokens");
    let limits = TemplateLimits { tokens: 4, ..TemplateLimits::default() };
    let options = ParseOptions { limits, ..ParseOptions::default() };
    assert!(Template::parse_with("{{ 1 + 1 }}", &options).is_ok());
    assert!(Template::parse_with("{{ 1 + 1 + 1 }}", &options).is_err());
    assert!(Template::parse_condition_with("1 + 1 + 1", &options).is_err());
}

/// Expressions that produce a text from the text `ns.t` and the list `ns.l`.
const TEXT_STEPS: [&str; 18] = [
    "ns.t ~ ns.t",
    "ns.t * 37",
    "ns.t + ns.t",
    "ns.t | replace('x', ns.t[:1000])",
    "ns.t | upper",
    "ns.t | title",
    "ns.t | tojson",
    "ns.t | b64encode",
    "ns.t | urlencode",
    "ns.t | reverse",
    "ns.t[::-1] ~ ns.t",
    "ns.t[::2]",
    "ns.t | trim('y')",
    "ns.l | join(ns.t[:10000])",
    "ns.l | tojson",
    "ns.l | tojson(4)",
    "ns.l | string",
    "ns.l ~ ns.t",
];

/// Expressions that produce a list from the same inputs.
const LIST_STEPS: [&str; 20] = [
    "ns.l + ns.l",
    "ns.l * 29",
    "[ns.l, ns.l]",
    "[ns.t, ns.l]",
    "{'a': ns.l, 'b': ns.t} | items",
    "dict(a=ns.l, b=ns.l) | values",
    "ns.t | list",
    "ns.t | split('x')",
    "ns.t | split",
    "ns.l | sort",
    "ns.l | unique",
    "ns.l | reverse",
    "ns.l[::2] + ns.l",
    "ns.l | map('string')",
    "ns.l | map('list')",
    "ns.l | map('tojson')",
    "ns.l | groupby(0)",
    "ns.l | select('string')",
    "ns.l | tojson | fromjson",
    "range(20000) | list + ns.l",
];

proptest! {
    #![proptest_config(ProptestConfig {
        // Each case processes megabytes.
        cases: if ProptestConfig::default().cases > 256 { 20_000 } else { 12 },
        failure_persistence: None,
        max_shrink_iters: 64,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_expressions_stay_within_memory(steps in prop::collection::vec(0..TEXT_STEPS.len() + LIST_STEPS.len(), 1..40)) {
        let mut text = "{% set ns = namespace(t='xy x', l=[1, 'x', [2]]) %}".to_owned();
        for step in steps {
            let set = match TEXT_STEPS.get(step) {
                Some(step) => format!("{{% set ns.t = {step} %}}"),
                None => format!("{{% set ns.l = {} %}}", LIST_STEPS[step - TEXT_STEPS.len()]),
            };
            text.push_str(&set);
        }
        text.push_str("{{ ns.t }}{{ ns.l }}");
        // Either result is fine: `render_measured` checks the memory.
        drop(render_measured(&text, &MapEnvironment::new()));
        let native = text.replace("{{ ns.t }}{{ ns.l }}", "{{ [ns.t, ns.l] }}");
        drop(render_measured(&native, &MapEnvironment::new()));
    }
}

#[test]
fn parsing_uses_little_memory() {
    for part in [
        "{{a}}", "x{{a}}", "{{a.b}}", "{{a|d}}", "{{a+a+a+a+a+a+a+a}}", "{{[a,a,a,a,a,a,a,a,a]}}",
        "{{{a:a,a:a,a:a,a:a}}}", "{%if a%}{%endif%}", "{%set a=1%}", "{{1=='a'}}", "{{a|lenght}}",
        "{%do%}",
    ] {
        let text = part.repeat((1 << 20) / part.len());
        let allocations =
            allocation_counter::measure(|| drop(Template::parse(&text, TemplatePlace::Run)));
        assert!(
            allocations.bytes_max < MAX_RENDER_BYTES / 2,
            "{part}: {} MiB",
            allocations.bytes_max >> 20
        );
    }
}

/// Filters over large texts are charged for the bytes that they process, also when they are nested.
#[test]
fn nested_filters_use_up_the_budget_of_several_renders() {
    let text = "{{ workload.big | tojson | tojson | tojson | tojson | tojson | length }}";
    let template = Template::parse(text, TemplatePlace::Run).unwrap();
    let big = Json::object([("big", Json::from("x".repeat(500_000)))]);
    let limits = TemplateLimits::default();
    let unlimited = MapEnvironment::new().with_name("workload", big);
    // Control: each render alone is within its limits.
    assert!((0..10).all(|_| template.render(&unlimited).is_ok()));
    let environment = unlimited.with_budget(FuelBudget::new(limits.fuel / 4));
    let failed = (0..10).find_map(|_| template.render(&environment).err());
    let Some(RenderError { kind: RenderErrorKind::Limit(RenderLimit::Fuel), .. }) = failed else {
        panic!("{failed:?}");
    };
}
