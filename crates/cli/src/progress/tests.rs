use noetl_api::execution::EventView;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::{EventId, EventName, EventType, ExecutionId, Json, Seq, Timestamp};

use super::{Display, Flow, Style};
use crate::io::{Env, Io, Stream};

const FLOW: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: flow }
workflow:
  - step: fetch
    loop: { in: [1, 2, 3, 4], iterator: n }
    tool: { kind: noop }
    next: { arcs: [{ step: compute }] }
  - step: compute
    tool:
      kind: python
      code: |
        a = 1
        result = a / 0
";

fn flow() -> Flow {
    let Some(Document::Playbook(playbook)) = check(FLOW, &CheckOptions::default()).document else {
        panic!("a playbook");
    };
    Flow {
        file: "flow.yaml".to_owned(),
        text: FLOW.to_owned(),
        playbook,
    }
}

/// An event of a step, so many milliseconds after the start.
fn event(ms: i64, kind: EventType, step: &str, meta: &str, told: &str) -> EventView {
    let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
    let time = Timestamp::from_unix_ms(1_000_000 + ms).unwrap();
    let told = json(told);
    EventView {
        event_id: EventId::new(1).unwrap(),
        seq: Seq::FIRST,
        execution_id: ExecutionId::new(1).unwrap(),
        event_type: EventName::from(kind),
        node_id: None,
        node_name: Some(step.into()),
        status: kind
            .usual_status()
            .map_or("FAILED", |it| it.as_str())
            .into(),
        created_at: time,
        timestamp: time,
        duration: None,
        context: None,
        result: (!told.is_null()).then(|| Json::object([("context", told)])),
        error: None,
        catalog_id: None,
        parent_event_id: None,
        worker_id: None,
        meta: Some(json(meta)),
    }
}

fn story() -> Vec<EventView> {
    let loop_meta = r#"{"run":1,"collection_size":4}"#;
    let done = |ms| {
        event(
            ms,
            EventType::CommandCompleted,
            "fetch",
            r#"{"run":1}"#,
            "null",
        )
    };
    vec![
        event(0, EventType::StepEnter, "fetch", loop_meta, "null"),
        done(10),
        event(
            20,
            EventType::CommandFailed,
            "fetch",
            r#"{"run":1}"#,
            "null",
        ),
        event(
            25,
            EventType::CallError,
            "fetch",
            r#"{"run":1,"final":false,"retry_in_ms":1500}"#,
            r#"{"error":{"kind":"connection","message":"refused\nby the peer"}}"#,
        ),
        done(30),
    ]
}

fn shown(style: Style, width: usize, act: impl FnOnce(&mut Display<'_>, &mut Io<'_>)) -> String {
    let flow = flow();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut std::io::empty(),
        out: Stream::plain(&mut out),
        err: Stream::terminal(&mut err, width),
        env: Env::default(),
    };
    io.force_color(false);
    act(&mut Display::new(style, Some(&flow)), &mut io);
    String::from_utf8(err)
        .unwrap()
        .replace('\r', "")
        .replace('\u{1b}', "ESC")
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_000_000 + ms).unwrap()
}

#[test]
fn a_terminal_shows_what_goes_on_as_a_bar() {
    let told = shown(Style::Live, 60, |display, io| {
        display.take(&story(), io).unwrap();
        display.tick(at(1_530), io).unwrap();
        display.tick(at(1_630), io).unwrap();
        let exit = event(
            1_700,
            EventType::StepExit,
            "fetch",
            r#"{"run":1}"#,
            r#"{"error":{"message":"x"},"caught":true}"#,
        );
        display.take(&[exit], io).unwrap();
        display.finish(io).unwrap();
    });
    insta::assert_snapshot!(told, @r"
    ↻ fetch    again in 1.5 s: refused
    ⠙ fetch    ━━━━━━━━━━━━━━━───── 3/4  1 failed  1.5 s
    ESC[1AESC[J⠹ fetch    ━━━━━━━━━━━━━━━───── 3/4  1 failed  1.6 s
    ESC[1AESC[J✗ fetch    1.7 s, 2 of 4, 1 failed, 1 retry, failed and cau…
    ");
}

#[test]
fn a_failure_points_at_the_line_of_the_code() {
    let told = shown(Style::Quiet, 80, |display, io| {
        let enter = event(0, EventType::StepEnter, "compute", r#"{"run":1}"#, "null");
        let exit = event(
            5,
            EventType::StepExit,
            "compute",
            r#"{"run":1}"#,
            r#"{"error":{"kind":"transform","message":"ZeroDivisionError","task":"compute","details":{"line":2},"attempt":3,"index":7},"caught":false}"#,
        );
        display.take(&[enter, exit], io).unwrap();
        assert!(display.has_told_failure());
    });
    insta::assert_snapshot!(told, @r"
    error[transform]: ZeroDivisionError
      --> flow.yaml:14:9
       |
    14 |         result = a / 0
       |         ^^^^^^^^^^^^^^
       |
       = in iteration 7
       = after 3 attempts
    ");
}

#[test]
fn what_is_left_when_a_run_is_cancelled_was_given_up() {
    let told = shown(Style::Lines, 80, |display, io| {
        let end = event(1_000, EventType::PlaybookCancelled, "flow", "{}", "null");
        let mut events = story();
        events.push(event(
            40,
            EventType::StepSkipped,
            "compute",
            r#"{"reason":"guard"}"#,
            "null",
        ));
        events.push(end);
        display.take(&events, io).unwrap();
        assert!(display.end().is_some());
    });
    insta::assert_snapshot!(told, @r"
    ▸ fetch    4 items
    ↻ fetch    again in 1.5 s: refused
    – compute  skipped: its condition does not hold
    – fetch    1.0 s, 2 of 4, 1 failed, 1 retry, given up
    ");
}
