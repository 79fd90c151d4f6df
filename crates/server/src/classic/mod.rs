//! Support for workers of the classic wire.
//!
//! Such a worker receives a command by the id of the event that issued it, claims it by that id,
//! renders its templates itself, and reports what happens event by event. It returns no lease token
//! and applies no policy: the fence is its name and the attempt, and the policy of a task is
//! applied here.
//!
//! Owns the conversion from that wire to the same inputs that the reports of other workers become.
//! Must not write to the log in another way, or use a status that the engine does not have.

mod claims;
mod command_credentials;
mod context;
mod envelope;
mod event_classifier;
mod event_ingest;
mod incoming_event;
mod payload;
mod reporter;
mod task_policy;
mod tool_data;

use std::sync::Arc;

use noetl_types::{CommandId, LeaseToken, WorkerId, digest};

use crate::driver::Driver;
use crate::services::issued_secrets::IssuedSecrets;
use crate::services::{Catalog, Credentials, Infrastructure, Results};
pub(crate) use claims::ClassicClaims;

/// Derives the token of a lease that was claimed by name.
///
/// Every server derives the same token, and so recognizes such a lease. The token is not secret: on
/// this wire it grants no more than the name of the worker does.
fn derive_lease_token(command_id: CommandId, worker: &WorkerId) -> LeaseToken {
    let command = command_id.get().to_be_bytes();
    let parts: [&[u8]; 3] = [b"noetl:claim", &command, worker.as_str().as_bytes()];
    let digest = digest::sha256_of_parts(&parts);
    let mut bytes = [0; LeaseToken::LEN];
    bytes.copy_from_slice(&digest.as_bytes()[..LeaseToken::LEN]);
    LeaseToken::from_bytes(bytes)
}

/// API of classic workers.
pub struct ClassicApi {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) results: Arc<Results>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) secrets: Arc<IssuedSecrets>,
    pub(crate) claims: Arc<ClassicClaims>,
}
