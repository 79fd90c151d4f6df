use super::*;

#[test]
fn version_is_last_seq() {
    assert_eq!(Seq::FIRST.get(), 1);
    assert_eq!(ExecutionVersion::EMPTY.next_seq(), Seq::FIRST);
    let third = Seq::new(3).unwrap();
    assert_eq!(ExecutionVersion::from(third).next_seq().get(), 4);
    assert_eq!(third.next().get(), 4);
    assert_eq!(ExecutionVersion::new(0), Ok(ExecutionVersion::EMPTY));
    assert_eq!(ExecutionVersion::new(3).unwrap().get(), 3);
    assert!(ExecutionVersion::EMPTY < ExecutionVersion::from(Seq::FIRST));
    for wrong in [0, -1, i64::MIN] {
        assert_eq!(Seq::new(wrong), Err(SeqError(wrong)));
    }
    assert_eq!(ExecutionVersion::new(-1), Err(SeqError(-1)));
}

#[test]
fn feed_is_ordered_by_transaction_then_position() {
    let late_row = FeedPosition { tx: 7, position: 90 };
    let early_row = FeedPosition { tx: 8, position: 12 };
    assert!(late_row < early_row);
    assert!(early_row < FeedPosition { tx: 8, position: 13 });
}
