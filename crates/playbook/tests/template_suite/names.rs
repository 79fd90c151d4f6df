//! The names whose parts are found by rules.

use std::sync::Arc;

use noetl_playbook::template::{
    Binding, External, MapScope, Need, Output, OutputPlace, RenderErrorKind, Scope, StepData,
};
use noetl_types::Json;

use crate::support::{json, render};

/// Asserts what expressions yield.
#[track_caller]
fn assert_names(names: &MapScope, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        match render(&format!("{{{{ {text} }}}}"), names) {
            Ok(value) => assert_eq!(value, json(expected), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

fn output(place: OutputPlace, envelope: &str, data: &str) -> MapScope {
    let output = Output::new(place, json(envelope), json(data));
    MapScope::new()
        .with("output", Binding::Output(Arc::new(output.clone())))
        .with("outcome", Binding::Output(Arc::new(output.as_outcome())))
}

const ENVELOPE: &str = r#"{"status": "ok", "error": null, "meta": {"attempt": 2}, "ref": null}"#;

#[test]
fn in_a_rule_the_envelope_comes_first() {
    let names = output(
        OutputPlace::Rule,
        ENVELOPE,
        r#"{"status": "mine", "count": 4, "result": 1}"#,
    );
    assert_names(
        &names,
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
fn in_a_set_or_an_arc_the_data_comes_first() {
    let names = output(
        OutputPlace::Set,
        ENVELOPE,
        r#"{"status": "mine", "count": 4}"#,
    );
    assert_names(
        &names,
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
    let names = output(
        OutputPlace::Set,
        ENVELOPE,
        r#"{"data": {"x": 1}, "response": 2, "result": 3}"#,
    );
    assert_names(
        &names,
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
fn data_that_is_not_a_map() {
    let names = output(OutputPlace::Set, ENVELOPE, "[1, 2]");
    assert_names(
        &names,
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
    let names = output(OutputPlace::Rule, r#"{"status": "error"}"#, "null");
    assert_names(
        &names,
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
fn the_body_of_an_http_task() {
    let envelope = r#"{"status": "ok", "http": {"status": 200, "headers": {"etag": "x"}}}"#;
    let data = r#"{"status_code": 200, "url": "u", "data": {"next": 7, "url": "theirs"}, "body": {"next": 7}}"#;
    let names = output(OutputPlace::Rule, envelope, data);
    assert_names(
        &names,
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
    let names = output(OutputPlace::Set, envelope, data);
    assert_names(
        &names,
        &[
            ("output.data.next", "7"),
            ("output.data.status_code", "null"),
            ("output.next", "null"),
        ],
    );
    // Another kind of task has no body to look into.
    let names = output(OutputPlace::Rule, ENVELOPE, data);
    assert_names(
        &names,
        &[("output.data.next", "null"), ("output.data.data.next", "7")],
    );
    // A body that is not a map has no keys.
    let names = output(
        OutputPlace::Rule,
        envelope,
        r#"{"status_code": 200, "data": "text"}"#,
    );
    assert_names(
        &names,
        &[
            ("output.data.next", "null"),
            ("output.data.data", "\"text\""),
        ],
    );
}

#[test]
fn data_of_a_step() {
    let step = |data: &str| Binding::Step(Arc::new(StepData::new(json(data))));
    let names = MapScope::new()
        .with("plain", step(r#"{"n": 1}"#))
        .with("own", step(r#"{"data": {"n": 2}, "result": 3}"#))
        .with("scalar", step("5"))
        .with(
            "looped",
            step(r#"{"results": [10, 20], "stats": {"total": 2}, "data": [10, 20]}"#),
        )
        .with(
            "piped",
            Binding::Step(Arc::new(
                StepData::new(json(
                    r#"{"load": {"rows": 3}, "save": {"ok": true}, "ok": true}"#,
                ))
                .with_labels(json(r#"{"load": {"rows": 3}, "save": {"ok": true}}"#)),
            )),
        );
    assert_names(
        &names,
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

fn payload() -> Json {
    let rows = (0..1200).map(|id| Json::object([("id", Json::from(id))]));
    Json::object([
        ("row_count", Json::from(1200)),
        ("status", Json::from("ok")),
        ("rows", Json::list(rows)),
    ])
}

#[test]
fn external_data_without_its_payload() {
    let external = External::new(json(REFERENCE));
    let names = MapScope::new().with(
        "s",
        Binding::Step(Arc::new(StepData::new(external.clone()))),
    );
    assert_names(
        &names,
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
    let need = Need::Payload {
        reference: Arc::from("noetl://execution/1/result/s/1"),
    };
    for text in [
        "s.rows[1100].id",
        "s.rows | length",
        "s",
        "s | length",
        "s.nope",
        "s[0]",
        "s.data.rows",
        "s == 1",
    ] {
        let error = render(&format!("{{{{ {text} }}}}"), &names).unwrap_err();
        assert_eq!(error.kind, RenderErrorKind::Needs(need.clone()), "{text}");
    }
    // A branch that is not taken needs nothing.
    assert_names(
        &names,
        &[("s.rows if s.row_count > 5000 else 'few'", "\"few\"")],
    );
}

#[test]
fn external_data_with_its_payload() {
    let external = External::new(json(REFERENCE)).with_payload(payload());
    let names = MapScope::new()
        .with(
            "s",
            Binding::Step(Arc::new(StepData::new(external.clone()))),
        )
        .with(
            "output",
            Binding::Output(Arc::new(Output::new(
                OutputPlace::Set,
                json(ENVELOPE),
                external,
            ))),
        );
    assert_names(
        &names,
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
fn layers_of_ctx() {
    let ctx = Binding::layers([
        Binding::Value(json(r#"{"a": 1, "n": null}"#)),
        Binding::map([
            ("a", Binding::Value(json("2"))),
            (
                "step",
                Binding::Step(Arc::new(StepData::new(json(r#"{"n": 5}"#)))),
            ),
        ]),
        Binding::Value(json(r#"{"a": 3, "step": 9, "w": 4}"#)),
    ]);
    let names = MapScope::new().with("ctx", ctx);
    assert_names(
        &names,
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

/// A scope that makes members only when they are asked for.
struct Lazy;

impl Scope for Lazy {
    fn lookup(&self, name: &str) -> Option<Binding> {
        (name == "steps").then(|| Binding::Members(Arc::from("steps")))
    }

    fn member(&self, root: &str, key: &str) -> Option<Binding> {
        assert_eq!(root, "steps");
        match key {
            "a" => Some(Binding::map([
                ("status", Binding::Value(Json::from("COMPLETED"))),
                (
                    "data",
                    Binding::External(Arc::new(External::new(json(REFERENCE)))),
                ),
            ])),
            _ => None,
        }
    }

    fn whole(&self, _: &str) -> Option<Binding> {
        Some(Binding::Value(Json::from("everything")))
    }
}

#[test]
fn members_are_asked_for_one_by_one() {
    let render = |text: &str| {
        crate::support::template(text)
            .render(&Lazy)
            .map(|rendered| rendered.value)
    };
    assert_eq!(render("{{ steps.a.status }}"), Ok(Json::from("COMPLETED")));
    assert_eq!(
        render("{{ steps['a'].data.row_count }}"),
        Ok(Json::from(1200))
    );
    assert_eq!(render("{{ steps.b.status }}"), Ok(Json::Null));
    assert_eq!(render("{{ steps }}"), Ok(Json::from("everything")));
    assert!(matches!(
        render("{{ steps.a.data.rows }}").unwrap_err().kind,
        RenderErrorKind::Needs(_)
    ));
}

#[test]
fn a_scope_is_asked_only_for_what_is_reached() {
    struct Strict;
    impl Scope for Strict {
        fn lookup(&self, name: &str) -> Option<Binding> {
            assert_eq!(name, "yes", "nothing else is read");
            Some(Binding::Value(Json::Bool(true)))
        }
    }
    let template =
        crate::support::template("{{ 1 if yes else no }}{% if not yes %}{{ other }}{% endif %}");
    assert_eq!(template.render(&Strict).unwrap().value, Json::from("1"));
}
