//! Integration tests of the server, in one binary.

mod cost;
mod nats;
mod replay;
mod runtime;
mod sharing;
mod simulation;
mod verification;
