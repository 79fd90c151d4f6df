//! Names with lookup rules: `output`, `outcome`, steps, `ctx` and external data.

use std::sync::Arc;

use noetl_playbook::template::{
    Binding, ExternalData, FetchNeed, MapEnvironment, OutputPlace, RenderErrorKind, StepData,
    TaskOutput, TemplateEnvironment,
};
use noetl_types::Json;

use crate::template_suite::support::{parse_json, render_template};

/// Asserts the value of each expression in an environment.
#[track_caller]
fn assert_expressions_in(environment: &MapEnvironment, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        match render_template(&format!("{{{{ {text} }}}}"), environment) {
            Ok(value) => assert_eq!(value, parse_json(expected), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

fn output_environment(place: OutputPlace, envelope: &str, data: &str) -> MapEnvironment {
    let output = TaskOutput::new(place, parse_json(envelope), parse_json(data));
    MapEnvironment::new()
        .with_name("output", Binding::Output(Arc::new(output.clone())))
        .with_name("outcome", Binding::Output(Arc::new(output.as_outcome())))
}

const ENVELOPE: &str = r#"{"status": "ok", "error": null, "meta": {"attempt": 2}, "ref": null}"#;

#[test]
fn rule_reads_envelope_before_data() {
    let environment = output_environment(
        OutputPlace::Rule,
        ENVELOPE,
        r#"{"status": "mine", "count": 4, "result": 1}"#,
    );
    assert_expressions_in(
        &environment,
        &[
            ("output.status", "\"ok\""),
            ("output.count", "4"),
            ("output.data.status", "\"mine\""),
            ("output.data.count", "4"),
            ("output.meta.attempt", "2"),
            ("output.error", "null"),
            ("output.nope", "null"),
            ("output.response.count", "4"),
            ("output.result", "1"),
            ("outcome.result.count", "4"),
            ("outcome.data.count", "4"),
            ("outcome.status", "\"ok\""),
            ("output", r#"{"status": "mine", "count": 4, "result": 1}"#),
            ("output | length", "3"),
            ("'count' in output", "true"),
        ],
    );
}

#[test]
fn set_reads_data_before_envelope() {
    let environment =
        output_environment(OutputPlace::Set, ENVELOPE, r#"{"status": "mine", "count": 4}"#);
    assert_expressions_in(
        &environment,
        &[
            ("output.status", "\"mine\""),
            ("output.count", "4"),
            ("output.data.count", "4"),
            ("output.data.status", "\"mine\""),
            ("output.meta.attempt", "2"),
            ("output.response.count", "4"),
            ("outcome.result.count", "4"),
            ("output", r#"{"status": "mine", "count": 4}"#),
        ],
    );
    let environment = output_environment(
        OutputPlace::Set,
        ENVELOPE,
        r#"{"data": {"x": 1}, "response": 2, "result": 3}"#,
    );
    assert_expressions_in(
        &environment,
        &[
            ("output.data.x", "1"),
            ("output.data.response", "null"),
            ("output.response", "2"),
            ("outcome.result", "3"),
            ("output.status", "\"ok\""),
        ],
    );
}

#[test]
fn output_data_can_be_any_type() {
    let environment = output_environment(OutputPlace::Set, ENVELOPE, "[1, 2]");
    assert_expressions_in(
        &environment,
        &[
            ("output", "[1,2]"),
            ("output[1]", "2"),
            ("output | first", "1"),
            ("output.data", "[1,2]"),
            ("output.data[0]", "1"),
            ("output.response", "[1,2]"),
            ("output.status", "\"ok\""),
            ("output[-1:]", "[2]"),
        ],
    );
    let environment = output_environment(OutputPlace::Rule, r#"{"status": "error"}"#, "null");
    assert_expressions_in(
        &environment,
        &[
            ("output.status == 'error'", "true"),
            ("output", "null"),
            ("output is none", "true"),
            ("output.data.x", "null"),
            ("output.data", "null"),
            ("output.error.kind", "null"),
        ],
    );
}

#[test]
fn http_body_is_readable_as_data() {
    let envelope = r#"{"status": "ok", "http": {"status": 200, "headers": {"etag": "x"}}}"#;
    let data = r#"{"status_code": 200, "url": "u", "data": {"next": 7, "url": "theirs"}, "body": {"next": 7}}"#;
    let environment = output_environment(OutputPlace::Rule, envelope, data);
    assert_expressions_in(
        &environment,
        &[
            ("output.http.status", "200"),
            ("output.status_code", "200"),
            ("output.data.data.next", "7"),
            ("output.data.next", "7"),
            ("output.data.url", "\"u\""),
            ("output.data.nope", "null"),
            ("output.response.next", "7"),
            ("outcome.result.next", "7"),
            ("output.next", "null"),
            ("output.data | length", "4"),
            ("output.data.status_code in [200, 201]", "true"),
        ],
    );
    let environment = output_environment(OutputPlace::Set, envelope, data);
    assert_expressions_in(
        &environment,
        &[("output.data.next", "7"), ("output.data.status_code", "null"), ("output.next", "null")],
    );
    // Only HTTP tasks look into the response body.
    let environment = output_environment(OutputPlace::Rule, ENVELOPE, data);
    assert_expressions_in(
        &environment,
        &[("output.data.next", "null"), ("output.data.data.next", "7")],
    );
    // A body that is not a map has no keys.
    let environment =
        output_environment(OutputPlace::Rule, envelope, r#"{"status_code": 200, "data": "text"}"#);
    assert_expressions_in(
        &environment,
        &[("output.data.next", "null"), ("output.data.data", "\"text\"")],
    );
}

#[test]
fn step_data_has_aliases_and_labels() {
    let step = |data: &str| Binding::Step(Arc::new(StepData::new(parse_json(data))));
    let environment = MapEnvironment::new()
        .with_name("plain", step(r#"{"n": 1}"#))
        .with_name("own", step(r#"{"data": {"n": 2}, "result": 3}"#))
        .with_name("scalar", step("5"))
        .with_name(
            "looped",
            step(r#"{"results": [10, 20], "stats": {"total": 2}, "data": [10, 20]}"#),
        )
        .with_name(
            "piped",
            Binding::Step(Arc::new(
                StepData::new(parse_json(
                    r#"{"load": {"rows": 3}, "save": {"ok": true}, "ok": true}"#,
                ))
                .with_labels(parse_json(r#"{"load": {"rows": 3}, "save": {"ok": true}}"#)),
            )),
        );
    assert_expressions_in(
        &environment,
        &[
            ("plain.n", "1"),
            ("plain.data.n", "1"),
            ("plain.result.n", "1"),
            ("plain.data.data", "null"),
            ("plain.nope", "null"),
            ("plain", r#"{"n":1}"#),
            ("plain._ref is defined", "false"),
            ("own.data.n", "2"),
            ("own.result", "3"),
            ("own.n", "null"),
            ("scalar + 1", "6"),
            ("scalar.data", "5"),
            ("looped.results[1]", "20"),
            ("looped.data[0]", "10"),
            ("looped.stats.total", "2"),
            ("piped.load.rows", "3"),
            ("piped.ok", "true"),
            ("piped.results.load.rows", "3"),
            ("piped.results | length", "2"),
            ("piped.data.load.rows", "3"),
            ("piped.result.ok", "true"),
        ],
    );
}

const REFERENCE: &str = r#"{
    "ref": "noetl://execution/1/result/s/1", "store": "kv", "bytes": 70000, "sha256": "abc",
    "media_type": "application/json", "extracted": {"row_count": 1200, "status": "ok"}
}"#;

fn external_payload() -> Json {
    let rows = (0..1200).map(|id| Json::object([("id", Json::from(id))]));
    Json::object([
        ("row_count", Json::from(1200)),
        ("status", Json::from("ok")),
        ("rows", Json::list(rows)),
    ])
}

#[test]
fn external_data_requests_payload_on_read() {
    let external = ExternalData::new(parse_json(REFERENCE));
    let environment = MapEnvironment::new()
        .with_name("s", Binding::Step(Arc::new(StepData::new(external.clone()))));
    assert_expressions_in(
        &environment,
        &[
            ("s._ref", "\"noetl://execution/1/result/s/1\""),
            ("s._uri", "\"noetl://execution/1/result/s/1\""),
            ("s._store", "\"kv\""),
            ("s._preview.row_count", "1200"),
            ("s.row_count", "1200"),
            ("s.status", "\"ok\""),
            ("s is defined", "true"),
        ],
    );
    let need = FetchNeed::Payload { reference: Arc::from("noetl://execution/1/result/s/1") };
    for text in [
        "s.rows[1100].id", "s.rows | length", "s", "s | length", "s.nope", "s[0]", "s.data.rows",
        "s == 1",
    ] {
        let error = render_template(&format!("{{{{ {text} }}}}"), &environment).unwrap_err();
        assert_eq!(error.kind, RenderErrorKind::Needs(need.clone()), "{text}");
    }
    // A branch that is not taken does not request the payload.
    assert_expressions_in(&environment, &[("s.rows if s.row_count > 5000 else 'few'", "\"few\"")]);
}

#[test]
fn external_data_reads_loaded_payload() {
    let external = ExternalData::new(parse_json(REFERENCE)).with_payload(external_payload());
    let environment = MapEnvironment::new()
        .with_name("s", Binding::Step(Arc::new(StepData::new(external.clone()))))
        .with_name(
            "output",
            Binding::Output(Arc::new(TaskOutput::new(
                OutputPlace::Set,
                parse_json(ENVELOPE),
                external,
            ))),
        );
    assert_expressions_in(
        &environment,
        &[
            ("s.rows[1100].id", "1100"),
            ("s.rows | length", "1200"),
            ("s.data.rows | length", "1200"),
            ("s.result.row_count", "1200"),
            ("s._ref is defined", "true"),
            ("s._store", "\"kv\""),
            ("s | length", "3"),
            ("s.nope", "null"),
            ("output.rows[3].id", "3"),
            ("output.data.rows[3].id", "3"),
        ],
    );
}

#[test]
fn ctx_layers_shadow_each_other() {
    let ctx = Binding::from_layers([
        Binding::Value(parse_json(r#"{"a": 1, "n": null}"#)),
        Binding::from_map([
            ("a", Binding::Value(parse_json("2"))),
            ("step", Binding::Step(Arc::new(StepData::new(parse_json(r#"{"n": 5}"#))))),
        ]),
        Binding::Value(parse_json(r#"{"a": 3, "step": 9, "w": 4}"#)),
    ]);
    let environment = MapEnvironment::new().with_name("ctx", ctx);
    assert_expressions_in(
        &environment,
        &[
            ("ctx.a", "1"),
            ("ctx.n is none", "true"),
            ("ctx.step.data.n", "5"),
            ("ctx.w", "4"),
            ("ctx.nope", "null"),
            ("ctx", r#"{"a":1,"n":null,"step":{"n":5},"w":4}"#),
            ("ctx | length", "4"),
            ("ctx['w']", "4"),
            ("ctx.get('w', 1)", "4"),
            ("ctx.get('x', 1)", "1"),
            ("ctx.items() | length", "4"),
        ],
    );
}

/// Environment that creates members on request.
struct LazySteps;

impl TemplateEnvironment for LazySteps {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        (name == "steps").then(|| Binding::Members(Arc::from("steps")))
    }

    fn lookup_member(&self, root: &str, key: &str) -> Option<Binding> {
        assert_eq!(root, "steps");
        match key {
            "a" => Some(Binding::from_map([
                ("status", Binding::Value(Json::from("COMPLETED"))),
                ("data", Binding::External(Arc::new(ExternalData::new(parse_json(REFERENCE))))),
            ])),
            _ => None,
        }
    }

    fn lookup_all(&self, _: &str) -> Option<Binding> {
        Some(Binding::Value(Json::from("everything")))
    }
}

#[test]
fn members_are_looked_up_individually() {
    let render = |text: &str| {
        crate::template_suite::support::parse_template(text)
            .render(&LazySteps)
            .map(|rendered| rendered.value)
    };
    assert_eq!(render("{{ steps.a.status }}"), Ok(Json::from("COMPLETED")));
    assert_eq!(render("{{ steps['a'].data.row_count }}"), Ok(Json::from(1200)));
    assert_eq!(render("{{ steps.b.status }}"), Ok(Json::Null));
    assert_eq!(render("{{ steps }}"), Ok(Json::from("everything")));
    assert!(matches!(
        render("{{ steps.a.data.rows }}").unwrap_err().kind,
        RenderErrorKind::Needs(_)
    ));
}

#[test]
fn only_evaluated_names_are_looked_up() {
    struct StrictEnvironment;
    impl TemplateEnvironment for StrictEnvironment {
        fn lookup_name(&self, name: &str) -> Option<Binding> {
            assert_eq!(name, "yes", "nothing else is read");
            Some(Binding::Value(Json::Bool(true)))
        }
    }
    let template = crate::template_suite::support::parse_template(
        "{{ 1 if yes else no }}{% if not yes %}{{ other }}{% endif %}",
    );
    assert_eq!(template.render(&StrictEnvironment).unwrap().value, Json::from("1"));
}
