use noetl_types::TenantId;

use super::*;
use crate::model::MAX_WAKEUP_TARGETS;

fn test_execution_id(number: i64) -> ExecutionId {
    ExecutionId::new(number).unwrap()
}

#[test]
fn wakeup_round_trips() {
    let mut wakeup = Wakeup::default();
    wakeup.add_queue(PoolName::shared(), 2);
    wakeup.add_queue(PoolName::shared().tenant_queue(&TenantId::new("acme").unwrap()), 1);
    wakeup.add_execution(test_execution_id(7), LogChange::Events);
    wakeup.add_execution(test_execution_id(8), LogChange::End);
    wakeup.add_command(CommandId::new(9).unwrap());
    assert_eq!(encode_wakeup(&wakeup), ["1@acme.shared 2@shared +7 !8 -9"]);
    assert_eq!(decode_wakeup("1@acme.shared 2@shared +7 !8 -9"), wakeup);
    assert_eq!(encode_wakeup(&Wakeup::WAKE_ALL), ["@ + -"]);
    assert_eq!(decode_wakeup("@ + -"), Wakeup::WAKE_ALL);
    assert!(encode_wakeup(&Wakeup::default()).is_empty());
}

#[test]
fn large_wakeup_is_split() {
    let mut wakeup = Wakeup::default();
    let count = i64::try_from(MAX_WAKEUP_TARGETS).unwrap();
    for number in 0..count {
        wakeup.add_execution(test_execution_id(i64::MAX - number), LogChange::Events);
    }
    let payloads = encode_wakeup(&wakeup);
    assert!(payloads.len() > 1);
    let mut received = Wakeup::default();
    for payload in payloads {
        assert!(payload.len() < 8_000);
        received.merge(decode_wakeup(&payload));
    }
    assert_eq!(received, wakeup);
}

#[test]
fn unparseable_payload_wakes_all() {
    for payload in ["", "hello", "+", "+x", "!", "@ x", "2@", "x@shared", "1@a b"] {
        let expected = match payload {
            "+" => Wakeup { executions: WakeupSet::All, ..Wakeup::default() },
            _ => Wakeup::WAKE_ALL,
        };
        assert_eq!(decode_wakeup(payload), expected, "{payload}");
    }
}

#[test]
fn every_schema_has_its_own_channel() {
    assert_eq!(channel_name("noetl"), "noetl_wakeups_noetl");
    let long = "s".repeat(62);
    let names =
        [&long, &format!("{long}a"), &format!("{long}b")].map(|schema| channel_name(schema));
    assert!(names.iter().all(|name| name.len() == MAX_CHANNEL_NAME_BYTES), "{names:?}");
    assert_ne!(names[1], names[2]);
    assert_ne!(names[0], names[1]);
}
