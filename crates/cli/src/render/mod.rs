//! Renders results as text for people.

pub(crate) mod diagnostic;
pub(crate) mod markdown;
pub(crate) mod palette;
pub(crate) mod result;
pub(crate) mod terminal_escape;
pub(crate) mod text_layout;
