//! What a run is doing, told while it goes on.
//!
//! Owns the way from events to lines: [`moment`] reads an event, [`story`] knows what is under way,
//! [`display`] writes. Nothing here asks anybody: events come in, lines go out.

mod display;
mod live;
mod moment;
mod story;
#[cfg(test)]
mod tests;

pub(crate) use display::{Display, Flow, Style, failure_in};
