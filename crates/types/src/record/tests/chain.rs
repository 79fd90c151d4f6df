//! The hash chain.

use proptest::prelude::*;

use super::*;
use crate::digest::Digest;

/// The chain of some records, as a store would keep it.
fn stored(records: impl IntoIterator<Item = EventRecord>) -> Vec<StoredEvent> {
    let mut head = Chain::START;
    records
        .into_iter()
        .zip(1_i64..)
        .map(|(mut record, seq)| {
            record.seq = Seq::new(seq).unwrap();
            head = head.link(&record);
            StoredEvent {
                record,
                chain: head,
                feed: FeedPosition {
                    tx: 1,
                    position: seq,
                },
            }
        })
        .collect()
}

/// Computed apart from this program, from the texts of the two envelopes.
#[test]
fn known_links() {
    let first = Chain::START.link(&record());
    assert_eq!(
        first.to_string(),
        "90108c31dc6c4c070928afac8761691a24d60e03ed3ac08e4dc06ccdb68ef95f"
    );
    let second = first.link(&second_record());
    assert_eq!(
        second.to_string(),
        "6ddc5968e8c4f587f465edea250db981933bee69f38a4b76d7a658e9e0665743"
    );
    assert_eq!(
        verify_chain(&stored([record(), second_record()])),
        Ok(second)
    );
    assert_eq!(verify_chain(&[]), Ok(Chain::START));
}

#[test]
fn links_as_bytes_and_text() {
    let link = Chain::START.link(&record());
    assert_eq!(Chain::try_from(&link.as_bytes()[..]), Ok(link));
    assert!(Chain::try_from(&[0_u8; 31][..]).is_err());
    let json = serde_json::to_string(&link).unwrap();
    assert_eq!(json, format!("\"{link}\""));
    assert_eq!(serde_json::from_str::<Chain>(&json).unwrap(), link);
    assert_eq!(Chain::default().as_bytes(), &[0; Digest::LEN]);
}

#[test]
fn a_missing_event_shows() {
    let mut log = stored([record(), second_record(), record()]);
    log.remove(1);
    let broken = verify_chain(&log).unwrap_err();
    assert_eq!(
        broken.to_string(),
        "event 2 is missing: event 3 stands in its place"
    );
    assert_eq!(broken.first_bad_seq().get(), 2);
}

#[test]
fn an_edited_link_shows() {
    let mut log = stored([record(), second_record()]);
    log[1].chain = Chain::START;
    let broken = verify_chain(&log).unwrap_err();
    assert_eq!(
        broken,
        ChainBroken::Edited {
            seq: Seq::new(2).unwrap()
        }
    );
    assert_eq!(broken.to_string(), "event 2 is not what was written");
}

#[test]
fn pages_can_be_checked_one_after_the_other() {
    let log = stored([record(), second_record(), record()]);
    let mut check = ChainCheck::resume(log[0].record.seq.into(), log[0].chain);
    check.check(&log[1]).unwrap();
    check.check(&log[2]).unwrap();
    assert_eq!(Ok(check.head()), verify_chain(&log));
}

#[test]
fn an_export_without_links_gives_the_same_head() {
    let log = stored([record(), second_record()]);
    let mut check = ChainCheck::default();
    for event in &log {
        check.extend(&event.record).unwrap();
    }
    assert_eq!(check.head(), log[1].chain);
    assert!(check.extend(&record()).is_err());
}

proptest! {
    #[test]
    fn any_edit_shows_at_its_place(
        records in prop::collection::vec(any_record(), 1..6),
        edit in any_record(),
        place: prop::sample::Index,
    ) {
        let mut log = stored(records);
        prop_assert!(verify_chain(&log).is_ok());
        let length = log.len();
        let edited = &mut log[place.index(length)].record;
        let before = edited.clone();
        edited.event = edit.event;
        edited.ingest_time = edit.ingest_time;
        let is_changed = edited.event != before.event || edited.ingest_time != before.ingest_time;
        let seq = edited.seq;
        prop_assert_eq!(verify_chain(&log).err(), is_changed.then_some(ChainBroken::Edited { seq }));
    }
}
