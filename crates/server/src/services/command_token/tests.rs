use noetl_types::{PoolName, StepName};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + second * 1000).unwrap()
}

fn build_command_token(deadline: Option<Millis>) -> CommandToken {
    let notification = CommandNotification {
        execution_id: ExecutionId::new(7).unwrap(),
        command_id: CommandId::new(9).unwrap(),
        step: StepName::new("load").unwrap(),
        index: None,
        pool: PoolName::shared().tenant_queue(&TenantId::new("acme").unwrap()),
        deadline,
        attempt: 1,
        number: 0,
    };
    CommandToken::for_notification(&notification, at(0), &Settings::default())
}

#[test]
fn command_token_expires_after_command_deadline() {
    let short = build_command_token(Some(Millis::from_secs(10)));
    assert_eq!(short.tenant_id, "acme");
    assert_eq!((short.claim_by, short.expires_at), (at(120), at(190)));
    let longest = build_command_token(None);
    assert_eq!((longest.claim_by, longest.expires_at), (at(120), at(120 + 1800 + 60)));
    assert_eq!(build_command_token(Some(Millis::from_days(30))), longest);
}

#[test]
fn rejects_unsigned_command_token() {
    let signer = HmacSigner::from_secret(b"ours", SIGNING_PURPOSE).unwrap();
    let other_signer = HmacSigner::from_secret(b"theirs", SIGNING_PURPOSE).unwrap();
    let token = build_command_token(None);
    let text = token.to_signed_text(&signer);
    assert!(text.len() < 128, "{}", text.len());
    assert_eq!(CommandToken::from_signed_text(&text, &signer), Some(token.clone()));
    assert_eq!(CommandToken::from_signed_text(&text, &other_signer), None);
    // Every changed byte invalidates the signature.
    let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let changed = URL_SAFE_NO_PAD.encode(changed);
        assert_eq!(CommandToken::from_signed_text(&changed, &signer), None, "{index}");
    }
    for invalid in ["", "x", "!", &text[1..], &text[..text.len() - 4]] {
        assert_eq!(CommandToken::from_signed_text(invalid, &signer), None, "{invalid}");
    }
    assert_eq!(CommandToken::from_signed_text(&"A".repeat(10_000), &signer), None);
    // A signed but unparseable token is rejected too.
    let mut empty = Vec::new();
    empty.extend(signer.sign_bytes(&[]));
    let empty = URL_SAFE_NO_PAD.encode(empty);
    assert_eq!(CommandToken::from_signed_text(&empty, &signer), None);
}
