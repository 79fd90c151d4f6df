use proptest::prelude::*;

use super::*;

#[test]
fn canonical_names_are_well_formed() {
    for kind in EventType::ALL {
        assert!(is_well_formed(kind.as_str()), "{kind}");
        assert_eq!(EventName::parse(kind.as_str()), Ok(EventName::Known(*kind)));
        assert_eq!(EventName::parse_lenient(Some(kind.as_str())), Ok(EventName::Known(*kind)));
    }
}

#[test]
fn parse_checks_shape() {
    for name in ["order", "order.created", "a.b.c.d.e", "a1_.2.__"] {
        assert_eq!(EventName::parse(name).unwrap().as_str(), name);
    }
    for name in ["Order", "1a", "_a", ".a", "a.", "a..b", "a.b.c.d.e.f", "a b", "a-b", "ä"] {
        assert!(matches!(EventName::parse(name), Err(EventNameError::Shape(_))), "{name}");
    }
    assert_eq!(EventName::parse(""), Err(EventNameError::Length(0)));
    assert_eq!(EventName::parse(&"a".repeat(256)), Err(EventNameError::Length(256)));
}

#[test]
fn lenient_parse_accepts_any_text() {
    let longest = "Ü".repeat(255);
    for name in ["Step Done!", "a..b", longest.as_str()] {
        assert_eq!(EventName::parse_lenient(Some(name)).unwrap().as_str(), name);
    }
    assert_eq!(EventName::parse_lenient(None).unwrap().as_str(), "unknown");
    assert_eq!(EventName::parse_lenient(Some("")), Err(EventNameError::Length(0)));
    assert_eq!(EventName::parse_lenient(Some("a\0b")), Err(EventNameError::Nul));
    assert_eq!(EventName::parse_lenient(Some(&"Ü".repeat(256))), Err(EventNameError::Length(256)));
}

#[test]
fn resolved_type_follows_aliases() {
    let projected = EventName::parse_lenient(Some("step_enter")).unwrap();
    assert_eq!(projected.as_str(), "step_enter");
    assert_eq!(projected.known_type(), None);
    assert_eq!(projected.resolved_type(), Some(EventType::StepEnter));
    assert_eq!(EventName::parse("order.created").unwrap().resolved_type(), None);
}

#[test]
fn names_that_workers_may_send() {
    let domain = EventName::parse("order.created").unwrap();
    assert!(domain.may_be_sent_by_worker(true));
    assert!(!domain.may_be_sent_by_worker(false));
    assert!(!EventName::from(EventType::StepExit).may_be_sent_by_worker(true));
    assert!(EventName::from(EventType::CallDone).may_be_sent_by_worker(false));
}

#[test]
fn subject_tokens_replace_illegal_characters() {
    for (name, subject) in [
        ("step.enter", "step.enter"),
        ("Step Done!", "Step_Done_"),
        ("a..b.", "a._.b._"),
        ("a.*.>", "a._._"),
        ("größe", "gr__e"),
    ] {
        let name = EventName::parse_lenient(Some(name)).unwrap();
        assert_eq!(name.subject_tokens(), subject);
    }
}

proptest! {
    #[test]
    fn subject_tokens_are_always_legal(name in "\\PC{1,80}|[a-z.*> ]{1,20}") {
        let name = EventName::parse_lenient(Some(&name)).unwrap();
        let subject = name.subject_tokens();
        let is_legal = |token: &str| {
            !token.is_empty()
                && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        prop_assert!(subject.split('.').all(is_legal), "{}", subject);
    }

    #[test]
    fn lenient_parse_accepts_everything_parse_accepts(name in "[a-z_.0-9A-Z]{0,30}") {
        if let Ok(parsed) = EventName::parse(&name) {
            prop_assert_eq!(EventName::parse_lenient(Some(&name)), Ok(parsed));
        }
    }
}
