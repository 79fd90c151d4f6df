use super::*;

fn query_in_order(order: EventOrder) -> EventsQuery {
    EventsQuery { order, ..EventsQuery::default() }
}

fn seq_number(number: i64) -> Seq {
    Seq::new(number).unwrap()
}

#[test]
fn range_advances_in_both_orders() {
    let mut up = SeqRange::from_query(&query_in_order(EventOrder::Asc), 10).unwrap();
    assert_eq!(up.next_chunk(EventOrder::Asc, 4), (0, 4));
    up.advance_past(EventOrder::Asc, seq_number(4));
    assert_eq!(
        (up.next_chunk(EventOrder::Asc, 100), &*up.to_cursor(EventOrder::Asc)),
        ((4, 6), "4")
    );
    up.advance_past(EventOrder::Asc, seq_number(10));
    assert!(up.is_empty());

    let mut down = SeqRange::from_query(&query_in_order(EventOrder::Desc), 10).unwrap();
    assert_eq!(down.next_chunk(EventOrder::Desc, 4), (6, 4));
    down.advance_past(EventOrder::Desc, seq_number(7));
    assert_eq!(
        (down.next_chunk(EventOrder::Desc, 4), &*down.to_cursor(EventOrder::Desc)),
        ((2, 4), "7")
    );
    down.advance_past(EventOrder::Desc, seq_number(1));
    assert!(down.is_empty());
}

#[test]
fn bounds_and_cursor_narrow_range() {
    let narrow = EventsQuery {
        after_seq: Some(seq_number(3)),
        before_seq: Some(seq_number(8)),
        cursor: Some("5".into()),
        ..query_in_order(EventOrder::Asc)
    };
    let range = SeqRange::from_query(&narrow, 100).unwrap();
    assert_eq!(range, SeqRange { after: 5, before: 8 });
    let beyond =
        EventsQuery { after_seq: Some(seq_number(i64::MAX)), ..query_in_order(EventOrder::Asc) };
    assert!(SeqRange::from_query(&beyond, 100).unwrap().is_empty());
    let wrong = EventsQuery { cursor: Some("x".into()), ..query_in_order(EventOrder::Asc) };
    assert!(SeqRange::from_query(&wrong, 100).is_err());
}
