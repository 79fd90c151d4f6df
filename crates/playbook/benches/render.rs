//! Throughput of template rendering and parsing.
#![expect(clippy::panic, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use noetl_playbook::template::{
    DynamicValue, MapEnvironment, ParseOptions, Template, TemplatePlace,
};
use noetl_types::Json;
use noetl_types::json::parse;

fn environment() -> MapEnvironment {
    let workload =
        r#"{"host": "example.org", "page": 3, "cities": ["Rome", "Oslo"], "limit": 100}"#;
    let rows = Json::list((0..1_000).map(|id| {
        Json::object([("id", Json::from(id)), ("name", Json::from(format!("row {id}")))])
    }));
    MapEnvironment::new()
        .with_name("workload", parse(workload.as_bytes()).unwrap_or_default())
        .with_name("rows", rows)
        .with_name("n", Json::from(12))
}

fn template(text: &str) -> Template {
    Template::parse(text, TemplatePlace::Run).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A request with twenty templates in it.
fn request() -> DynamicValue {
    let fields = (0..9).map(|index| {
        let value = format!("{{{{ workload.cities[{}] }}}} {{{{ n + {index} }}}}", index % 2);
        (format!("field_{index}"), Json::from(value))
    });
    let native = (0..9).map(|index| Json::from(format!("{{{{ workload.page * {index} }}}}")));
    let value = Json::object([
        ("url", Json::from("https://{{ workload.host }}/api/v1/items?page={{ workload.page }}")),
        ("limit", Json::from("{{ workload.limit }}")),
        ("json", Json::object(fields)),
        ("params", Json::list(native)),
        ("method", Json::from("POST")),
    ]);
    let request = DynamicValue::from_json(&value, &ParseOptions::default());
    request.unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn render(criterion: &mut Criterion) {
    let environment = environment();
    let simple = template("{{ workload.page + 1 }}");
    criterion.bench_function("simple expression", |b| {
        b.iter(|| black_box(&simple).render(&environment));
    });

    let mixed = template("https://{{ workload.host }}/items?page={{ workload.page }}&n={{ n }}");
    criterion.bench_function("mixed text", |b| {
        b.iter(|| black_box(&mixed).render(&environment));
    });

    let condition = Template::parse_condition(
        "n > 10 and workload.page in [1, 2, 3] and 'Rome' in workload.cities",
    );
    let condition = condition.unwrap_or_else(|errors| panic!("{errors:?}"));
    criterion.bench_function("condition", |b| {
        b.iter(|| black_box(&condition).render_condition(&environment));
    });

    let request = request();
    assert_eq!(request.templates().len(), 20);
    criterion.bench_function("request of 20 templates", |b| {
        b.iter(|| black_box(&request).render(&environment));
    });

    let looping = template("{% for r in rows if r.id % 2 %}{{ r.id }}: {{ r.name }}\n{% endfor %}");
    criterion.bench_function("loop over 1000 rows", |b| {
        b.iter(|| black_box(&looping).render(&environment));
    });

    let filters =
        template("{{ rows | selectattr('id', 'odd') | map(attribute='name') | join(', ') }}");
    criterion.bench_function("filters over 1000 rows", |b| {
        b.iter(|| black_box(&filters).render(&environment));
    });
}

fn parse_templates(criterion: &mut Criterion) {
    let simple = "{{ workload.page + 1 }}";
    criterion.bench_function("parse simple expression", |b| {
        b.iter(|| Template::parse(black_box(simple), TemplatePlace::Run));
    });
    let long =
        "select * from t where a = {{ a | int }} and b in ({{ b | join(', ') }})\n".repeat(100);
    criterion.bench_function("parse 200 expressions", |b| {
        b.iter(|| Template::parse(black_box(&long), TemplatePlace::Run));
    });
}

criterion_group!(benches, render, parse_templates);
criterion_main!(benches);
