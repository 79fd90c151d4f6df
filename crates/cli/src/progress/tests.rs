use noetl_api::execution::EventView;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::{EventId, EventName, EventType, ExecutionId, Json, Seq, Timestamp};

use super::{PlaybookSource, ProgressDisplay, ProgressStyle};
use crate::io::{Env, Io, OutputStream};

const FLOW_PLAYBOOK: &str = "apiVersion: noetl.io/v2
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

fn sample_flow() -> PlaybookSource {
    let Some(Document::Playbook(playbook)) =
        check(FLOW_PLAYBOOK, &CheckOptions::default()).document
    else {
        panic!("a playbook");
    };
    PlaybookSource { file: "flow.yaml".to_owned(), text: FLOW_PLAYBOOK.to_owned(), playbook }
}

/// Builds an event of a step, `ms` milliseconds after the start.
fn step_event(ms: i64, kind: EventType, step: &str, meta: &str, outcome: &str) -> EventView {
    let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
    let time = Timestamp::from_unix_ms(1_000_000 + ms).unwrap();
    let outcome = json(outcome);
    EventView {
        event_id: EventId::new(1).unwrap(),
        seq: Seq::FIRST,
        execution_id: ExecutionId::new(1).unwrap(),
        event_type: EventName::from(kind),
        node_id: None,
        node_name: Some(step.into()),
        status: kind.default_status().map_or("FAILED", |status| status.as_str()).into(),
        created_at: time,
        timestamp: time,
        duration: None,
        context: None,
        result: (!outcome.is_null()).then(|| Json::object([("context", outcome)])),
        error: None,
        catalog_id: None,
        parent_event_id: None,
        worker_id: None,
        meta: Some(json(meta)),
    }
}

fn sample_events() -> Vec<EventView> {
    let loop_meta = r#"{"run":1,"collection_size":4}"#;
    let done = |ms| step_event(ms, EventType::CommandCompleted, "fetch", r#"{"run":1}"#, "null");
    vec![
        step_event(0, EventType::StepEnter, "fetch", loop_meta, "null"),
        done(10),
        step_event(20, EventType::CommandFailed, "fetch", r#"{"run":1}"#, "null"),
        step_event(
            25,
            EventType::CallError,
            "fetch",
            r#"{"run":1,"final":false,"retry_in_ms":1500}"#,
            r#"{"error":{"kind":"connection","message":"refused\nby the peer"}}"#,
        ),
        done(30),
    ]
}

fn render_display(
    style: ProgressStyle,
    width: usize,
    draw: impl FnOnce(&mut ProgressDisplay<'_>, &mut Io<'_>),
) -> String {
    let source = sample_flow();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut std::io::empty(),
        out: OutputStream::plain(&mut out),
        err: OutputStream::terminal(&mut err, width),
        env: Env::default(),
        quiet: false,
    };
    io.force_color(false);
    draw(&mut ProgressDisplay::new(style, Some(&source)), &mut io);
    String::from_utf8(err).unwrap().replace('\r', "").replace('\u{1b}', "ESC")
}

fn time_at_ms(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_000_000 + ms).unwrap()
}

#[test]
fn terminal_shows_progress_bar() {
    let rendered = render_display(ProgressStyle::Live, 60, |display, io| {
        display.print_events(&sample_events(), io).unwrap();
        display.redraw(time_at_ms(1_530), io).unwrap();
        display.redraw(time_at_ms(1_630), io).unwrap();
        let exit = step_event(
            1_700,
            EventType::StepExit,
            "fetch",
            r#"{"run":1}"#,
            r#"{"error":{"message":"x"},"caught":true}"#,
        );
        display.print_events(&[exit], io).unwrap();
        display.clear_live_lines(io).unwrap();
    });
    insta::assert_snapshot!(rendered, @r"
    ↻ fetch    retry in 1.5 s: refused
    ⠙ fetch    ━━━━━━━━━━━━━━━───── 3/4  1 failed  1.5 s
    ESC[1AESC[J⠹ fetch    ━━━━━━━━━━━━━━━───── 3/4  1 failed  1.6 s
    ESC[1AESC[J✗ fetch    1.7 s, 2 of 4, 1 failed, 1 retry, failed and cau…
    ");
}

#[test]
fn failure_points_at_code_line() {
    let rendered = render_display(ProgressStyle::Quiet, 80, |display, io| {
        let enter = step_event(0, EventType::StepEnter, "compute", r#"{"run":1}"#, "null");
        let exit = step_event(
            5,
            EventType::StepExit,
            "compute",
            r#"{"run":1}"#,
            r#"{"error":{"kind":"transform","message":"ZeroDivisionError","task":"compute","details":{"line":2},"attempt":3,"index":7},"caught":false}"#,
        );
        display.print_events(&[enter, exit], io).unwrap();
        assert!(display.has_printed_failure());
    });
    insta::assert_snapshot!(rendered, @r"
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
fn open_steps_are_shown_as_cancelled() {
    let rendered = render_display(ProgressStyle::Lines, 80, |display, io| {
        let end = step_event(1_000, EventType::PlaybookCancelled, "flow", "{}", "null");
        let mut events = sample_events();
        events.push(step_event(
            40,
            EventType::StepSkipped,
            "compute",
            r#"{"reason":"guard"}"#,
            "null",
        ));
        events.push(end);
        display.print_events(&events, io).unwrap();
        assert!(display.final_status().is_some());
    });
    insta::assert_snapshot!(rendered, @r"
    ▸ fetch    4 items
    ↻ fetch    retry in 1.5 s: refused
    – compute  skipped: its condition is false
    – fetch    1.0 s, 2 of 4, 1 failed, 1 retry, cancelled
    ");
}
