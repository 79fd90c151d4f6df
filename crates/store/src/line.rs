//! How processes that share a store reach each other.

use std::fmt;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::model::Hints;

/// A line to the other processes on a store, over a connection of its own. What goes over it are
/// hints: nothing waits for them to come, and nobody says what was missed. So whoever has a new line
/// looks everywhere, and tells the others to do the same.
#[async_trait]
pub trait Line: fmt::Debug + Send {
    /// Tells the others. An error means that the line is of no use any more.
    async fn tell(&mut self, hints: &Hints) -> Result<(), StoreError>;

    /// What others have told since the last call; waits until there is something. An error means that
    /// the line is dead. A call that is dropped loses nothing.
    async fn hear(&mut self) -> Result<Hints, StoreError>;
}
