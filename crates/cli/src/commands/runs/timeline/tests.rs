use super::*;

fn sample_event(ms: i64, kind: &str, step: &str, status: &str, meta: &str) -> EventView {
    let at = Timestamp::from_unix_ms(1_800_000_000_000 + ms).unwrap();
    let text = format!(
        r#"{{"event_id":"1","seq":1,"execution_id":"1","event_type":"{kind}","node_name":"{step}",
        "status":"{status}","created_at":"{at}","timestamp":"{at}","result":null,"error":null,"meta":{meta}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn draw_bar(timeline: &Timeline, index: usize) -> String {
    let bar = &timeline.bars[index];
    let columns = bar.to_columns(timeline.from, timeline.to, 10);
    let symbol = |activity: Option<StepActivity>| activity.map_or('.', StepActivity::symbol);
    columns.into_iter().map(symbol).collect()
}

#[test]
fn bar_shows_queued_running_and_retry() {
    let events = [
        sample_event(0, "playbook.started", "p", "STARTED", "{}"),
        sample_event(0, "step.enter", "a", "ENTERED", r#"{"run":1}"#),
        sample_event(0, "command.issued", "a", "PENDING", r#"{"tool_kind":"python"}"#),
        sample_event(200, "command.claimed", "a", "CLAIMED", "{}"),
        sample_event(500, "call.error", "a", "FAILED", r#"{"retry_in_ms":200}"#),
        sample_event(800, "command.completed", "a", "COMPLETED", "{}"),
        sample_event(800, "step.exit", "a", "COMPLETED", "{}"),
        sample_event(800, "step.enter", "b", "ENTERED", "{}"),
        sample_event(800, "command.issued", "b", "PENDING", r#"{"tool_kind":"wait"}"#),
    ];
    let now = Timestamp::from_unix_ms(1_800_000_001_000).unwrap();
    let timeline = Timeline::from_events(&events, now).unwrap();
    assert_eq!(draw_bar(&timeline, 0), "░░███▒▒█..");
    assert_eq!(draw_bar(&timeline, 1), "........┄┄");
    let ends: Vec<_> = timeline.bars.iter().map(|bar| (bar.ended, bar.retries)).collect();
    assert_eq!(ends, [(StepOutcome::Completed, 1), (StepOutcome::Open, 0)]);
}

/// A worker that waits for a retry has reported the time of the next attempt.
#[test]
fn pending_retry_is_drawn_until_now() {
    let mut events = vec![
        sample_event(0, "playbook.started", "p", "STARTED", "{}"),
        sample_event(0, "step.enter", "a", "ENTERED", r#"{"run":1}"#),
        sample_event(0, "command.issued", "a", "PENDING", r#"{"tool_kind":"http"}"#),
        sample_event(200, "command.claimed", "a", "CLAIMED", "{}"),
        sample_event(200, "command.started", "a", "RUNNING", "{}"),
    ];
    let now = Timestamp::from_unix_ms(1_800_000_001_000).unwrap();
    let timeline = Timeline::from_events(&events, now).unwrap();
    assert_eq!(draw_bar(&timeline, 0), "░░████████");
    assert_eq!(timeline.bars[0].retry_at, None);

    let retried = r#"{"retry_in_ms":30000}"#;
    events.push(sample_event(500, "call.error", "a", "FAILED", retried));
    let timeline = Timeline::from_events(&events, now).unwrap();
    assert_eq!(draw_bar(&timeline, 0), "░░███▒▒▒▒▒");
    let bar = &timeline.bars[0];
    let retry_at = Timestamp::from_unix_ms(1_800_000_030_500).unwrap();
    assert_eq!((bar.retry_at, bar.to), (Some(retry_at), now));
    assert!(bar.spans.iter().all(|span| span.to <= now));

    let later = retry_at.saturating_add(Millis::from_secs(1));
    let timeline = Timeline::from_events(&events, later).unwrap();
    assert_eq!(timeline.bars[0].retry_at, None);
    let last = timeline.bars[0].spans.last().unwrap();
    assert_eq!((last.doing, last.from), (StepActivity::Running, retry_at));

    // A cancelled run retries nothing.
    events.push(sample_event(900, "playbook.cancelled", "p", "CANCELLED", "{}"));
    let timeline = Timeline::from_events(&events, later).unwrap();
    assert_eq!(timeline.bars[0].retry_at, None);
    assert_eq!(timeline.bars[0].to, timeline.to);
}

#[test]
fn iterations_share_a_bar_and_stay_visible() {
    let issued = |ms, index| {
        sample_event(
            ms,
            "command.issued",
            "l",
            "PENDING",
            &format!(r#"{{"tool_kind":"noop","iter_index":{index}}}"#),
        )
    };
    let closed = |ms, kind: &str, index| {
        sample_event(ms, kind, "l", "COMPLETED", &format!(r#"{{"iter_index":{index}}}"#))
    };
    let events = [
        sample_event(0, "playbook.started", "p", "STARTED", "{}"),
        sample_event(0, "step.enter", "l", "ENTERED", r#"{"collection_size":2}"#),
        issued(0, 0),
        closed(1, "command.completed", 0),
        issued(990, 1),
        closed(995, "command.failed", 1),
        sample_event(1000, "playbook.failed", "p", "FAILED", "{}"),
    ];
    let timeline = Timeline::from_events(&events, Timestamp::MAX).unwrap();
    assert_eq!(draw_bar(&timeline, 0), "░........░");
    assert_eq!((timeline.bars[0].items, timeline.bars[0].failed), (Some(2), 1));
    assert_eq!(timeline.bars[0].ended, StepOutcome::Cancelled);
}
