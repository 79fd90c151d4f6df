use std::time::Duration;

use noetl_store::EventBody;
use noetl_types::{EventId, EventType, ExecutionId, Seq, Text, Timestamp};

use super::*;

fn feed_position(position: i64) -> FeedPosition {
    FeedPosition { tx: 3, position }
}

fn feed_message(position: i64, bytes: usize) -> FeedMessage {
    FeedMessage {
        feed: feed_position(position),
        ingest_time: Timestamp::UNIX_EPOCH,
        subject: Text::from("s"),
        body: EventBody {
            execution_id: ExecutionId::new(1).unwrap(),
            event_id: EventId::new(position).unwrap(),
            seq: Seq::new(position).unwrap(),
            event_type: EventType::StepEnter.into(),
            bytes: vec![b'x'; bytes].into(),
        },
    }
}

fn acked_position_and_count(window: &InFlightWindow) -> Option<(FeedPosition, usize)> {
    window.acked_prefix().map(|prefix| (prefix.to, prefix.events))
}

#[test]
fn cursor_does_not_pass_unacked_events() {
    let (mut window, now) = (InFlightWindow::new(), Instant::now());
    let numbers: Vec<_> =
        (1..=5).map(|position| window.add_event(feed_message(position, 10), false, now)).collect();
    // The broker acknowledges in any order, and repeatedly.
    for late in [3, 1, 3] {
        window.acknowledge(numbers[late], now);
        assert_eq!(acked_position_and_count(&window), None);
    }
    window.acknowledge(numbers[0], now);
    assert_eq!(acked_position_and_count(&window), Some((feed_position(2), 2)));
    window.reset_acked_prefix();
    assert_eq!(acked_position_and_count(&window), None);
    window.acknowledge(numbers[2], now);
    assert_eq!(acked_position_and_count(&window), Some((feed_position(4), 2)));
    assert!(window.get(numbers[0]).is_none() && window.get(numbers[4]).is_some());
    window.acknowledge(numbers[4], now);
    assert_eq!(acked_position_and_count(&window), Some((feed_position(5), 3)));
    assert!(window.is_empty() && window.waiting_since().is_none());
    // A number that was never sent is ignored.
    window.acknowledge(numbers[4] + 1, now);
    assert_eq!(acked_position_and_count(&window), Some((feed_position(5), 3)));
}

/// For every order of acknowledgements, the prefix has no unacknowledged event before it.
#[test]
fn acked_prefix_is_correct_for_every_order() {
    let mut open = vec![(vec![0_usize, 1, 2, 3, 4], Vec::new())];
    while let Some((unacked, acked)) = open.pop() {
        if unacked.is_empty() {
            let (mut window, now) = (InFlightWindow::new(), Instant::now());
            let numbers: Vec<_> = (1..=5)
                .map(|position| window.add_event(feed_message(position, 1), false, now))
                .collect();
            for (count, next) in acked.iter().enumerate() {
                window.acknowledge(numbers[*next], now);
                let acked_so_far = &acked[..=count];
                let prefix = (0..5).take_while(|index| acked_so_far.contains(index)).count();
                let events = window.acked_prefix().map_or(0, |acked| acked.events);
                assert_eq!(events, prefix, "{acked:?}");
            }
        }
        for next in &unacked {
            let rest = unacked.iter().copied().filter(|index| index != next).collect();
            open.push((rest, [&*acked, &[*next]].concat()));
        }
    }
}

#[test]
fn window_is_bounded_in_events_and_bytes() {
    let (mut window, now) = (InFlightWindow::new(), Instant::now());
    let first = window.add_event(feed_message(1, MAX_IN_FLIGHT_BYTES - 1), false, now);
    assert!(window.has_room());
    let second = window.add_event(feed_message(2, 1), false, now);
    assert!(!window.has_room());
    // Its bytes are freed, although it waits for the event before it.
    window.acknowledge(second, now);
    assert!(window.has_room());
    window.acknowledge(first, now);
    let mut last = 2;
    while window.has_room() {
        last += 1;
        window.add_event(feed_message(last, 1), false, now);
    }
    assert_eq!(usize::try_from(last - 2), Ok(MAX_IN_FLIGHT_EVENTS));
}

/// A broker may take longer for all events together than the timeout of one.
#[test]
fn slow_broker_does_not_time_out() {
    let (mut window, sent) = (InFlightWindow::new(), Instant::now());
    let numbers: Vec<_> =
        (1..=3).map(|position| window.add_event(feed_message(position, 1), false, sent)).collect();
    assert_eq!(window.waiting_since(), Some(sent));
    let [first, second] = [4, 8].map(|seconds| sent + Duration::from_secs(seconds));
    window.acknowledge(numbers[0], first);
    assert_eq!(window.waiting_since(), Some(first));
    // Acknowledgements of later events do not count for the first one.
    window.acknowledge(numbers[2], second);
    assert_eq!(window.waiting_since(), Some(first));
    let resent = first + Duration::from_secs(1);
    assert!(window.resend_as_reference(numbers[1], resent));
    assert_eq!(window.waiting_since(), Some(resent));
    // An event that is sent later waits since then, not since the last acknowledgement.
    window.acknowledge(numbers[1], second);
    assert_eq!(window.waiting_since(), None);
    let later = second + Duration::from_mins(1);
    window.add_event(feed_message(4, 1), false, later);
    assert_eq!(window.waiting_since(), Some(later));
}

#[test]
fn skipped_events_are_passed_with_earlier_ones() {
    let (mut window, now) = (InFlightWindow::new(), Instant::now());
    window.skip_event(feed_position(1));
    assert_eq!(acked_position_and_count(&window), Some((feed_position(1), 1)));
    window.reset_acked_prefix();
    let number = window.add_event(feed_message(2, 1), false, now);
    window.skip_event(feed_position(3));
    window.skip_event(feed_position(4));
    assert_eq!(acked_position_and_count(&window), None);
    window.acknowledge(number, now);
    assert_eq!(acked_position_and_count(&window), Some((feed_position(4), 1)));
}

#[test]
fn resends_as_reference_once() {
    let (mut window, now) = (InFlightWindow::new(), Instant::now());
    let number = window.add_event(feed_message(1, 9), false, now);
    assert!(window.resend_as_reference(number, now));
    assert!(window.get(number).unwrap().by_reference);
    assert!(!window.resend_as_reference(number, now));
    window.acknowledge(number, now);
    assert!(!window.resend_as_reference(number, now));
}

fn time_at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1_000).unwrap()
}

#[test]
fn detects_purged_stream() {
    let mut check = BrokerCheck::default();
    assert!(!check.is_missing_message(u64::MAX, time_at(0)), "nothing was sent yet");
    for sequence in 1..=9 {
        check.record_stored(sequence, time_at(100));
    }
    assert!(!check.is_missing_message(1, time_at(0)));
    // The stream is purged and continues at once.
    for sequence in 10..=20 {
        check.record_stored(sequence, time_at(105));
    }
    assert!(check.is_missing_message(10, time_at(0)));
}

#[test]
fn detects_loss_between_two_checks() {
    let mut check = BrokerCheck::default();
    assert!(!check.is_missing_message(1, time_at(0)));
    check.record_stored(1, time_at(100));
    check.record_stored(2, time_at(101));
    assert!(check.is_missing_message(2, time_at(0)));
    // It is reported once.
    assert!(!check.is_missing_message(2, time_at(0)));
}

#[test]
fn expired_messages_are_not_missing() {
    let mut check = BrokerCheck::default();
    check.record_stored(7, time_at(100));
    assert!(!check.is_missing_message(7, time_at(50)));
    assert!(!check.is_missing_message(u64::MAX, time_at(100)));
    // An idle stream is checked again and again.
    check.record_stored(8, time_at(200));
    assert!(!check.is_missing_message(8, time_at(100)));
    assert!(!check.is_missing_message(8, time_at(150)));
    assert!(check.is_missing_message(9, time_at(150)));
}
