use futures_util::FutureExt as _;

use super::*;

fn command(number: i64) -> CommandId {
    CommandId::new(number).unwrap()
}

#[test]
fn end_of_a_watched_command_is_not_missed() {
    let watches = CommandWatches::default();
    let watch = watches.watch_commands(vec![command(1), command(2)]);
    watches.notify_command(command(3));
    assert_eq!(watch.wait_for_end().now_or_never(), None);
    watches.notify_command(command(2));
    assert_eq!(watch.wait_for_end().now_or_never(), Some(()));
    watches.notify_all();
    assert_eq!(watch.wait_for_end().now_or_never(), Some(()));
}

#[test]
fn dropped_watch_leaves_nothing() {
    let watches = CommandWatches::default();
    let kept = watches.watch_commands(vec![command(1)]);
    drop(watches.watch_commands(vec![command(1), command(2)]));
    assert_eq!(watches.watched.lock().len(), 1);
    watches.notify_command(command(1));
    assert_eq!(kept.wait_for_end().now_or_never(), Some(()));
    drop(kept);
    assert!(watches.watched.lock().is_empty());
}
