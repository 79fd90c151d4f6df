//! What workers of the classic wire need.
//!
//! Such a worker hears of a command by the id of the event that issued it, claims it by that id,
//! renders its templates itself, and tells what happens event by event. It sends no token back and
//! judges nothing: the fence is its name and the attempt, and the policy of a task is followed here.
//!
//! Owns the way from that wire to the same inputs that every other worker's reports become. Must
//! not: write to the log by another way, or know of a status that the engine does not.

mod claim;
mod context;
mod events;
mod hearing;
mod judge;
mod keep;
mod lend;
mod payload;
mod tale;
mod teller;

pub(super) use keep::Claims;
pub(super) use lend::asks_with_any;

use noetl_api::LeaseToken;
use noetl_types::{CommandId, WorkerId, digest};

/// What proves a lease that was claimed by name.
///
/// It is the same wherever it is worked out, so that every server knows such a lease when it sees
/// one. It is no secret, and gives no more than the name of the worker does on this wire.
fn token(command_id: CommandId, worker: &WorkerId) -> LeaseToken {
    let command = command_id.get().to_be_bytes();
    let parts: [&[u8]; 3] = [b"noetl:claim", &command, worker.as_str().as_bytes()];
    let digest = digest::sha256_of_parts(&parts);
    let mut bytes = [0; LeaseToken::LEN];
    bytes.copy_from_slice(&digest.as_bytes()[..LeaseToken::LEN]);
    LeaseToken::from_bytes(bytes)
}

/// The same as the store keeps it.
fn stored_token(command_id: CommandId, worker: &WorkerId) -> noetl_store::LeaseToken {
    noetl_store::LeaseToken::from_bytes(*token(command_id, worker).as_bytes())
}
