//! Integration tests of the engine, in one binary.

mod agreement;
mod cost;
mod decisions;
mod golden;
mod properties;
mod replay;
mod replay_memory;
mod suspension;
