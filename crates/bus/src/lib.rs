//! Wake-ups.
//!
//! Owns who waits for work ([`Desk`]) and who waits for the end of a run ([`Followers`]), inside of
//! one process, and the way to the others by NATS ([`nats`]). It is never the truth: what it loses is
//! found again in the store, a little later.
//!
//! Must not: know what a command is or what a run does.

mod desk;
mod followers;
pub mod nats;

pub use desk::{Desk, Mark, Reservation, Taker, Wait, Wake};
pub use followers::{Followers, Following};
