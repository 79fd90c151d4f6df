use super::*;

pub(crate) fn anchor(previous: AnchorHead) -> Anchor {
    Anchor {
        anchor_id: previous.anchor_id + 1,
        time: Timestamp::UNIX_EPOCH,
        previous: previous.digest,
        epoch: 1,
        feed: FeedPosition { tx: 0, position: 3 },
        sealed: false,
        runs: vec![AnchoredRun {
            id: ExecutionId::new(7).unwrap(),
            seq: Seq::new(3).unwrap(),
            link: ChainHash::START,
            facts: sha256("facts"),
        }],
        audit: Vec::new(),
        dropped: Vec::new(),
        kept: Vec::new(),
    }
}

#[test]
fn anchors_are_chained() {
    let first = anchor(AnchorHead::START);
    let second = anchor(first.head());
    assert!(first.follows(AnchorHead::START) && second.follows(first.head()));
    let mut changed = first.clone();
    changed.runs.clear();
    assert!(!second.follows(changed.head()));
    let head = second.head();
    assert_eq!(AnchorHead::parse(&head.to_string()), Some(head));
    for wrong in ["", "2", "0:ab", &format!("x:{}", head.digest), "2:zz"] {
        assert_eq!(AnchorHead::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn line_round_trips_to_same_digest() {
    let sealed = SealedAnchor { anchor: anchor(AnchorHead::START), seal: Some(sha256("seal")) };
    let parsed = SealedAnchor::parse(&sealed.to_line()).unwrap();
    assert_eq!(parsed, sealed);
    assert_eq!(parsed.anchor.head(), sealed.anchor.head());
    assert_eq!(SealedAnchor::parse("{}"), None);
}
