//! Model checks of store rules over their whole state space.
//!
//! Each model is checked with rules that seem right and must fail, and with the rule in force. A
//! model that detects no violation in the first does not prove the second.

mod dedup;
mod lease;
mod outbox;
mod retention;
mod stream;
