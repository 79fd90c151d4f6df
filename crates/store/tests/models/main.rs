//! Models of the rules that a store keeps, checked over all of their states.
//!
//! Each is checked with the rule that looks right at first, which must be found wrong, and with the
//! rule that is in force. A model that finds nothing in the first proves nothing by the second.

mod dedup;
mod lease;
mod outbox;
mod retention;
mod stream;
