//! Test harness shared by the tests of several crates. Nothing of it is part of the product.

pub mod nats;
pub mod postgres;
#[expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a harness reports errors by failing the test"
)]
pub mod sim;
mod supervised_process;
