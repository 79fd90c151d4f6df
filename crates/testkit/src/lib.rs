//! The test harness of the house.
//!
//! Owns what tests of several crates share. Nothing of it is part of the product.

mod leash;
pub mod nats;
pub mod postgres;
#[expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a harness tells what went wrong by failing the test"
)]
pub mod sim;
