//! The hash chain.

use proptest::prelude::*;

use super::*;
use crate::digest::Digest;

/// Chains records as a store does.
fn chain_records(records: impl IntoIterator<Item = EventRecord>) -> Vec<StoredEvent> {
    let mut head = ChainHash::START;
    records
        .into_iter()
        .zip(1_i64..)
        .map(|(mut record, seq)| {
            record.seq = Seq::new(seq).unwrap();
            head = head.next_for_record(&record);
            StoredEvent { record, chain: head, feed: FeedPosition { tx: 1, position: seq } }
        })
        .collect()
}

/// The expected hashes were computed independently from the texts of the two envelopes.
#[test]
fn links_match_known_hashes() {
    let first = ChainHash::START.next_for_record(&first_record());
    assert_eq!(
        first.to_string(),
        "90108c31dc6c4c070928afac8761691a24d60e03ed3ac08e4dc06ccdb68ef95f"
    );
    let second = first.next_for_record(&second_record());
    assert_eq!(
        second.to_string(),
        "6ddc5968e8c4f587f465edea250db981933bee69f38a4b76d7a658e9e0665743"
    );
    assert_eq!(verify_chain(&chain_records([first_record(), second_record()])), Ok(second));
    assert_eq!(verify_chain(&[]), Ok(ChainHash::START));
}

#[test]
fn links_round_trip_as_bytes_and_text() {
    let link = ChainHash::START.next_for_record(&first_record());
    assert_eq!(ChainHash::try_from(&link.as_bytes()[..]), Ok(link));
    assert!(ChainHash::try_from(&[0_u8; 31][..]).is_err());
    let json = serde_json::to_string(&link).unwrap();
    assert_eq!(json, format!("\"{link}\""));
    assert_eq!(serde_json::from_str::<ChainHash>(&json).unwrap(), link);
    assert_eq!(ChainHash::default().as_bytes(), &[0; Digest::LEN]);
}

#[test]
fn detects_missing_event() {
    let mut log = chain_records([first_record(), second_record(), first_record()]);
    log.remove(1);
    let error = verify_chain(&log).unwrap_err();
    assert_eq!(error.to_string(), "event 2 is missing: found event 3 instead");
}

#[test]
fn detects_edited_link() {
    let mut log = chain_records([first_record(), second_record()]);
    log[1].chain = ChainHash::START;
    let error = verify_chain(&log).unwrap_err();
    assert_eq!(error, ChainError::Modified { seq: Seq::new(2).unwrap() });
    assert_eq!(error.to_string(), "event 2 was modified after it was written");
}

#[test]
fn verification_resumes_between_pages() {
    let log = chain_records([first_record(), second_record(), first_record()]);
    let mut verifier = ChainVerifier::resume_from(log[0].record.seq.into(), log[0].chain);
    verifier.verify_event(&log[1]).unwrap();
    verifier.verify_event(&log[2]).unwrap();
    assert_eq!(Ok(verifier.head()), verify_chain(&log));
}

proptest! {
    #[test]
    fn detects_any_edit_at_its_seq(
        records in prop::collection::vec(arb_record(), 1..6),
        edit in arb_record(),
        position: prop::sample::Index,
    ) {
        let mut log = chain_records(records);
        prop_assert!(verify_chain(&log).is_ok());
        let length = log.len();
        let edited = &mut log[position.index(length)].record;
        let before = edited.clone();
        edited.event = edit.event;
        edited.ingest_time = edit.ingest_time;
        let is_changed = edited.event != before.event || edited.ingest_time != before.ingest_time;
        let seq = edited.seq;
        prop_assert_eq!(verify_chain(&log).err(), is_changed.then_some(ChainError::Modified { seq }));
    }
}
