//! State of loops over a cursor: chains of frames and the counts of their rows.

use std::sync::Arc;

use noetl_types::report::FrameReport;
use noetl_types::{CommandId, Millis, TaskError};
use serde::{Deserialize, Serialize};

use super::layered::{LayeredMap, Settle, settled};
use crate::event::{CursorSettings, IterationError, LoopStats};

/// Maximum number of stored errors. All of them are counted.
const MAX_STORED_ERRORS: usize = 1000;
/// Number of recently closed frames for which a duplicate report is recognized.
const MAX_RECENT_FRAMES: usize = 1000;

/// State of an active loop over a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorState {
    /// Settings of the cursor.
    pub terms: CursorSettings,
    /// Next frame to issue.
    pub next: u32,
    /// Number of ended chains.
    pub ended: u32,
    /// Number of rows that the next frame requests.
    pub ask: u32,
    /// Number of frames that had rows or failed.
    pub frames: u32,
    /// Number of processed rows.
    pub total: u32,
    /// Number of successful rows.
    pub success: u32,
    /// Number of failed rows.
    pub failed: u32,
    /// Errors, in order of the reports.
    pub errors: LayeredMap<u32, IterationError>,
    /// Frame that failed first in time.
    pub first_failed: Option<Arc<IterationError>>,
    /// Recently closed frames.
    pub recent: LayeredMap<CommandId, FrameEnd>,
    /// True if its end was recorded.
    pub is_done: bool,
}

/// Outcome of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameEnd {
    /// True if the frame failed.
    pub is_failed: bool,
    /// Number of claimed rows.
    pub rows: u32,
    /// Number of successful rows.
    pub done: u32,
}

settled!(IterationError, FrameEnd);

/// A frame that was just closed.
pub(crate) struct ClosedFrame {
    pub(crate) command: CommandId,
    pub(crate) frame: u32,
    pub(crate) error: Option<TaskError>,
    pub(crate) report: Option<FrameReport>,
    /// Duration, if known.
    pub(crate) duration: Option<Millis>,
}

impl CursorState {
    pub(crate) fn new(settings: CursorSettings) -> Self {
        Self {
            terms: settings,
            next: 0,
            ended: 0,
            ask: settings.max_rows,
            frames: 0,
            total: 0,
            success: 0,
            failed: 0,
            errors: LayeredMap::default(),
            first_failed: None,
            recent: LayeredMap::default(),
            is_done: false,
        }
    }

    /// Row counts.
    pub fn loop_stats(&self) -> LoopStats {
        LoopStats {
            total: self.total,
            success: self.success,
            failed: self.failed,
            frames: Some(self.frames),
        }
    }

    /// Returns true if every chain has ended.
    pub fn is_complete(&self) -> bool {
        self.ended >= self.terms.chains
    }

    /// Records a closed frame. A frame without rows ends its chain. So does a frame whose rows are
    /// unknown, because its successor might fail in the same way forever.
    pub(crate) fn close(&mut self, closed: ClosedFrame) {
        let report = closed.report.unwrap_or_default();
        // A frame that fails before its first row counts as one failure.
        let failed = match closed.error {
            None => report.failed,
            Some(_) => report.failed.max(1),
        };
        self.success = self.success.saturating_add(report.done);
        self.failed = self.failed.saturating_add(failed);
        self.total = self.total.saturating_add(report.done.saturating_add(failed));
        if report.rows > 0 || closed.error.is_some() {
            self.frames = self.frames.saturating_add(1);
        }
        if report.rows == 0 {
            self.ended = self.ended.saturating_add(1);
        } else {
            self.ask = self.next_frame_rows(&report, closed.duration);
        }
        let end =
            FrameEnd { is_failed: closed.error.is_some(), rows: report.rows, done: report.done };
        self.record_closed_frame(closed.command, end);
        let index = closed.frame;
        for row in report.errors {
            self.record_error(IterationError { index, error: row.error });
        }
        if let Some(error) = closed.error {
            let failed = IterationError { index, error };
            self.first_failed.get_or_insert_with(|| Arc::new(failed.clone()));
            self.record_error(failed);
        }
    }

    fn record_error(&mut self, error: IterationError) {
        if self.errors.len() < MAX_STORED_ERRORS {
            let index = u32::try_from(self.errors.len()).unwrap_or(u32::MAX);
            self.errors.insert(index, error);
        }
    }

    fn record_closed_frame(&mut self, command: CommandId, end: FrameEnd) {
        self.recent.insert(command, end);
        if self.recent.len() > MAX_RECENT_FRAMES {
            let oldest = self.recent.iter().next().map(|(oldest, _)| *oldest);
            if let Some(oldest) = oldest {
                self.recent.remove(&oldest);
            }
        }
    }

    /// Returns the number of rows that the next frame requests. A frame over its budget is followed
    /// by a proportionally smaller one. A frame that used less than half of its budget is followed
    /// by one of twice the size.
    fn next_frame_rows(&self, report: &FrameReport, duration: Option<Millis>) -> u32 {
        let rows = u64::from(report.rows);
        let (bytes, time) = (report.bytes, duration.unwrap_or_default().as_ms());
        let (max_bytes, max_time) = (self.terms.max_bytes.as_bytes(), self.terms.max_time.as_ms());
        let fitting = |used: u64, limit: u64| {
            if used > limit { Some(rows.saturating_mul(limit) / used) } else { None }
        };
        let smaller = [fitting(bytes, max_bytes), fitting(time, max_time)];
        let rows_to_request = match smaller.into_iter().flatten().min() {
            Some(rows) => u32::try_from(rows).unwrap_or(u32::MAX),
            None if bytes <= max_bytes / 2 && time <= max_time / 2 => self.ask.saturating_mul(2),
            None => self.ask,
        };
        rows_to_request.clamp(1, self.terms.max_rows.max(1))
    }
}

impl Settle for CursorState {
    fn settle(&mut self) {
        self.errors.settle();
        self.recent.settle();
    }
}

#[cfg(test)]
mod tests;
