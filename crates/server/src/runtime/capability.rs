//! Capabilities: what lets whoever was told of a command work on it, and do nothing else.
//!
//! A worker of the classic wire sends all calls about a command to the address in its notice, and
//! shows no token there. So the address itself says what its bearer may do: it is signed, names one
//! command, and is over some time after that command has to be.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use noetl_store::Store;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, Millis, Scope, Scopes, TenantId, Text, Timestamp,
};

use super::messaging::Notice;
use super::tokens::hex;
use super::{Behalf, Core, Runtime, RuntimeError, Settings, entropy};
use crate::chance::Chance;
use crate::vault::{Signer, TAG_BYTES};

/// What the key of these signatures is for.
const END: &str = "capability";
/// The form of what is signed.
const VERSION: u8 = 1;
/// How long a notice may be on its way, at least: longer than the longest time between two notices of
/// a command, so that one of them is always good.
const ON_ITS_WAY: Millis = Millis::from_secs(120);
/// Characters of the longest capability.
const MAX_TEXT: usize = 512;

/// What the bearer of an address may work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Whose command it is.
    pub tenant_id: TenantId,
    /// The run that it is of.
    pub execution_id: ExecutionId,
    /// The command.
    pub command_id: CommandId,
    /// Until when the command may be claimed by it. Whoever claims it later would not have the time
    /// that a command may take.
    pub claim_by: Timestamp,
    /// Until when it is good for everything else.
    pub expires_at: Timestamp,
}

impl Capability {
    /// For a command that somebody is told of now.
    fn of(notice: &Notice, now: Timestamp, settings: &Settings) -> Self {
        let longest = settings.classic_claim_max;
        let held = notice.deadline.map_or(longest, |own| own.min(longest));
        let silence = settings.worker_offline;
        let claim_by = now.saturating_add(silence.max(ON_ITS_WAY));
        Self {
            tenant_id: notice.pool.owner().0,
            execution_id: notice.execution_id,
            command_id: notice.command_id,
            claim_by,
            expires_at: claim_by.saturating_add(held).saturating_add(silence),
        }
    }

    /// Whom calls are made for.
    pub(crate) fn behalf(self) -> Behalf {
        Behalf {
            tenant_id: self.tenant_id.clone(),
            capability: Some(self),
            scopes: Some(Scopes::NONE.with(Scope::Worker)),
            ..Behalf::default()
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for number in [
            self.execution_id.get(),
            self.command_id.get(),
            self.claim_by.as_unix_ms(),
            self.expires_at.as_unix_ms(),
        ] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.tenant_id.as_str().as_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, mut rest) = bytes.split_first()? else {
            return None;
        };
        let mut number = || {
            let (number, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(i64::from_be_bytes(*number))
        };
        let (execution_id, command_id) = (number()?, number()?);
        let (claim_by, expires_at) = (number()?, number()?);
        Some(Self {
            tenant_id: TenantId::new(str::from_utf8(rest).ok()?).ok()?,
            execution_id: ExecutionId::new(execution_id).ok()?,
            command_id: CommandId::new(command_id).ok()?,
            claim_by: Timestamp::from_unix_ms(claim_by).ok()?,
            expires_at: Timestamp::from_unix_ms(expires_at).ok()?,
        })
    }

    /// As an address has it.
    fn signed(&self, signer: &Signer) -> String {
        let mut bytes = self.bytes();
        let tag = signer.sign(&bytes);
        bytes.extend(tag);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What an address shows, if it is signed by one of us.
    fn read(shown: &str, signer: &Signer) -> Option<Self> {
        let shown = Some(shown).filter(|shown| shown.len() <= MAX_TEXT)?;
        let bytes = URL_SAFE_NO_PAD.decode(shown).ok()?;
        let (bytes, tag) = bytes.split_last_chunk::<TAG_BYTES>()?;
        // Nothing is made of it before it is known to be ours.
        signer
            .knows(bytes, tag)
            .then(|| Self::of_bytes(bytes))
            .flatten()
    }
}

/// What signs capabilities, where notices have them: the same at every server on the store.
pub(super) async fn signer(
    store: &dyn Store,
    chance: &dyn Chance,
    settings: &Settings,
) -> Result<Option<Signer>, RuntimeError> {
    if !settings.notify_capability {
        return Ok(None);
    }
    let signer = if let Some(keys) = &settings.keys {
        Signer::of_ring(keys, END)
    } else {
        let fresh = Text::from(hex(&entropy::bytes::<32>(chance)));
        let secret = store.common_secret(fresh).await?;
        Signer::of_secret(secret.as_bytes(), END)
    };
    let failed = |error: crate::vault::VaultError| {
        RuntimeError::refused(ErrorCode::Internal, error.to_string())
    };
    signer.map(Some).map_err(failed)
}

impl Core {
    /// The address to which a worker sends all calls about a command that it is told of.
    pub(super) fn address_for(&self, notice: &Notice) -> String {
        let url = self.settings.public_url.as_deref().unwrap_or_default();
        let Some(signer) = &self.signer else {
            return url.to_owned();
        };
        let capability = Capability::of(notice, self.clock.now(), &self.settings);
        format!("{url}/w/{}", capability.signed(signer))
    }
}

impl Runtime {
    /// What an address shows, if it is good.
    pub(crate) fn capability(&self, shown: &str) -> Result<Capability, RuntimeError> {
        let signer = self.core.signer.as_ref();
        let capability = signer.and_then(|signer| Capability::read(shown, signer));
        let capability = capability.ok_or_else(|| {
            let text = "the capability in the address is not valid";
            RuntimeError::refused(ErrorCode::Unauthenticated, text)
        })?;
        if capability.expires_at <= self.now() {
            return Err(expired());
        }
        Ok(capability)
    }

    /// Refuses a claim for which not enough time is left.
    pub(super) fn check_claim_time(&self) -> Result<(), RuntimeError> {
        match &self.behalf().capability {
            Some(capability) if capability.claim_by <= self.now() => Err(expired()),
            Some(_) | None => Ok(()),
        }
    }

    /// The address that shows a capability, as a test wants it.
    #[cfg(test)]
    pub(crate) fn signed(&self, capability: &Capability) -> String {
        let signer = self.core.signer.as_ref().unwrap();
        capability.signed(signer)
    }
}

fn expired() -> RuntimeError {
    let text = "the capability in the address has expired; a command that still waits is told again, \
        with a fresh one";
    RuntimeError::refused(ErrorCode::TokenExpired, text)
}

#[cfg(test)]
mod tests {
    use noetl_types::{PoolName, StepName};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_800_000_000_000 + second * 1000).unwrap()
    }

    fn made(deadline: Option<Millis>) -> Capability {
        let notice = Notice {
            execution_id: ExecutionId::new(7).unwrap(),
            command_id: CommandId::new(9).unwrap(),
            step: StepName::new("load").unwrap(),
            index: None,
            pool: PoolName::shared().within(&TenantId::new("acme").unwrap()),
            deadline,
            attempt: 1,
            number: 0,
        };
        Capability::of(&notice, at(0), &Settings::default())
    }

    #[test]
    fn it_lasts_as_long_as_its_command_may_and_not_for_ever() {
        let short = made(Some(Millis::from_secs(10)));
        assert_eq!(short.tenant_id, "acme");
        assert_eq!((short.claim_by, short.expires_at), (at(120), at(190)));
        let longest = made(None);
        assert_eq!(
            (longest.claim_by, longest.expires_at),
            (at(120), at(120 + 1800 + 60))
        );
        assert_eq!(made(Some(Millis::from_days(30))), longest);
    }

    #[test]
    fn only_what_is_signed_is_read() {
        let signer = Signer::of_secret(b"ours", END).unwrap();
        let theirs = Signer::of_secret(b"theirs", END).unwrap();
        let capability = made(None);
        let text = capability.signed(&signer);
        assert!(text.len() < 128, "{}", text.len());
        assert_eq!(Capability::read(&text, &signer), Some(capability.clone()));
        assert_eq!(Capability::read(&text, &theirs), None);
        // Whatever byte is changed, it is nobody's.
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(Capability::read(&changed, &signer), None, "{place}");
        }
        for other in ["", "x", "!", &text[1..], &text[..text.len() - 4]] {
            assert_eq!(Capability::read(other, &signer), None, "{other}");
        }
        assert_eq!(Capability::read(&"A".repeat(10_000), &signer), None);
        // What is signed and means nothing is nothing either.
        let mut empty = Vec::new();
        empty.extend(signer.sign(&[]));
        let empty = URL_SAFE_NO_PAD.encode(empty);
        assert_eq!(Capability::read(&empty, &signer), None);
    }
}
