//! Progress of a run, shown while it is running.
//!
//! Converts events to lines: [`state`] tracks the active steps, and [`display`] writes the lines.
//! Performs no requests.

mod display;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use display::{
    PlaybookSource, ProgressDisplay, ProgressStyle, error_summary, frame_interval,
    render_step_failure,
};
pub(crate) use state::event_error;
