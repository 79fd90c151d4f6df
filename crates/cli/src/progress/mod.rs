//! Progress of a run, shown while it is running.
//!
//! Converts events to lines: [`progress_event`] interprets an event, [`progress_state`] tracks the
//! active steps, and [`display`] writes the lines. Performs no requests.

mod display;
mod live_lines;
mod progress_event;
mod progress_state;
#[cfg(test)]
mod tests;

pub(crate) use display::{PlaybookSource, ProgressDisplay, ProgressStyle, render_step_failure};
