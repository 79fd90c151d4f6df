use std::collections::BTreeSet;

use super::*;

#[test]
fn alias_table_is_stable() {
    let rows: Vec<String> = ALIASES
        .iter()
        .map(|(alias, _)| {
            let resolve = |sender| normalize_event_name(alias, sender).unwrap().name;
            let (server, worker) = (resolve(EventSender::Server), resolve(EventSender::Worker));
            if server == worker {
                format!("{alias:<22} {server}")
            } else {
                format!("{alias:<22} {server}; of a worker {worker}")
            }
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn aliases_are_distinct_and_not_canonical() {
    let aliases: BTreeSet<&str> = ALIASES.iter().map(|(alias, _)| *alias).collect();
    assert_eq!(aliases.len(), ALIASES.len());
    for alias in aliases {
        assert!(EventType::parse(alias).is_err(), "{alias}");
    }
}

#[test]
fn canonical_names_are_unchanged() {
    for kind in EventType::ALL {
        let normalized = normalize_event_name(kind.as_str(), EventSender::Server).unwrap();
        assert_eq!(normalized.name, EventName::Known(*kind));
        assert_eq!(normalized.original, None);
    }
}

#[test]
fn keeps_name_as_sent() {
    let exit = normalize_event_name("step.exit", EventSender::Worker).unwrap();
    assert_eq!(exit.name, EventName::Known(EventType::CallDone));
    assert_eq!(exit.original.as_deref(), Some("step.exit"));

    let claimed = normalize_event_name("command_claimed", EventSender::Server).unwrap();
    assert_eq!(claimed.original.as_deref(), Some("command_claimed"));
}

#[test]
fn accepts_other_well_formed_names() {
    let domain = normalize_event_name("order.created", EventSender::Worker).unwrap();
    assert_eq!(domain.name.as_str(), "order.created");
    assert_eq!(domain.original, None);
    assert!(normalize_event_name("Order Created", EventSender::Worker).is_err());
}
