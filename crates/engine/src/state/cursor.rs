//! What is known of a loop over a cursor: chains of frames, and what became of their rows.

use std::sync::Arc;

use noetl_playbook::shift::FrameReport;
use noetl_types::{CommandId, Millis, TaskError};
use serde::{Deserialize, Serialize};

use super::layered::{Layered, Settle, settled};
use crate::event::{CursorTerms, IterationError, LoopStats};

/// Failures that are kept; all of them are counted.
const MAX_KEPT_ERRORS: usize = 1000;
/// Closed frames of which a second report is recognised.
const MAX_RECENT: usize = 1000;

/// A loop over a cursor that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorState {
    /// How it goes through the rows.
    pub terms: CursorTerms,
    /// The next frame to issue.
    pub next: u32,
    /// Chains that have come to their end.
    pub ended: u32,
    /// Rows that the next frame asks for.
    pub ask: u32,
    /// Frames that had rows, or failed.
    pub frames: u32,
    /// Rows that were claimed and come to.
    pub total: u32,
    /// Those that went well.
    pub success: u32,
    /// Those that failed.
    pub failed: u32,
    /// What they failed with, in the order of the reports.
    pub errors: Layered<u32, IterationError>,
    /// The frame that failed first in time.
    pub first_failed: Option<Arc<IterationError>>,
    /// Frames that were closed last.
    pub recent: Layered<CommandId, FrameEnd>,
    /// Whether its end was recorded.
    pub is_done: bool,
}

/// How a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameEnd {
    /// Whether it failed.
    pub is_failed: bool,
    /// Rows that were claimed.
    pub rows: u32,
    /// Rows that went well.
    pub done: u32,
}

settled!(IterationError, FrameEnd);

/// A frame that has just been closed.
pub(crate) struct ClosedFrame {
    pub(crate) command: CommandId,
    pub(crate) frame: u32,
    pub(crate) error: Option<TaskError>,
    pub(crate) report: Option<FrameReport>,
    /// How long it took, where that is known.
    pub(crate) took: Option<Millis>,
}

impl CursorState {
    pub(crate) fn new(terms: CursorTerms) -> Self {
        Self {
            terms,
            next: 0,
            ended: 0,
            ask: terms.max_rows,
            frames: 0,
            total: 0,
            success: 0,
            failed: 0,
            errors: Layered::default(),
            first_failed: None,
            recent: Layered::default(),
            is_done: false,
        }
    }

    /// What became of the rows.
    pub fn stats(&self) -> LoopStats {
        LoopStats {
            total: self.total,
            success: self.success,
            failed: self.failed,
            frames: Some(self.frames),
        }
    }

    /// Whether every chain has come to its end.
    pub fn is_complete(&self) -> bool {
        self.ended >= self.terms.chains
    }

    /// Takes what became of a frame. One without rows ends its chain, and so does one of which it is
    /// not known whether it had any: its successor might fail in the same way for ever.
    pub(crate) fn close(&mut self, closed: ClosedFrame) {
        let report = closed.report.unwrap_or_default();
        // A frame that fails before its first row counts as one failure.
        let failed = match closed.error {
            None => report.failed,
            Some(_) => report.failed.max(1),
        };
        self.success = self.success.saturating_add(report.done);
        self.failed = self.failed.saturating_add(failed);
        self.total = self
            .total
            .saturating_add(report.done.saturating_add(failed));
        if report.rows > 0 || closed.error.is_some() {
            self.frames = self.frames.saturating_add(1);
        }
        if report.rows == 0 {
            self.ended = self.ended.saturating_add(1);
        } else {
            self.ask = self.next_ask(&report, closed.took);
        }
        let end = FrameEnd {
            is_failed: closed.error.is_some(),
            rows: report.rows,
            done: report.done,
        };
        self.remember(closed.command, end);
        let index = closed.frame;
        for row in report.errors {
            self.keep(IterationError {
                index,
                error: row.error,
            });
        }
        if let Some(error) = closed.error {
            let failed = IterationError { index, error };
            self.first_failed
                .get_or_insert_with(|| Arc::new(failed.clone()));
            self.keep(failed);
        }
    }

    fn keep(&mut self, error: IterationError) {
        if self.errors.len() < MAX_KEPT_ERRORS {
            let at = u32::try_from(self.errors.len()).unwrap_or(u32::MAX);
            self.errors.insert(at, error);
        }
    }

    fn remember(&mut self, command: CommandId, end: FrameEnd) {
        self.recent.insert(command, end);
        if self.recent.len() > MAX_RECENT {
            let oldest = self.recent.iter().next().map(|(oldest, _)| *oldest);
            if let Some(oldest) = oldest {
                self.recent.remove(&oldest);
            }
        }
    }

    /// Rows that the next frame asks for. One over its budget is followed by a smaller one, in
    /// proportion; one that needed less than half of it by one of twice the size.
    fn next_ask(&self, report: &FrameReport, took: Option<Millis>) -> u32 {
        let rows = u64::from(report.rows);
        let (bytes, time) = (report.bytes, took.unwrap_or_default().as_ms());
        let (most_bytes, most_time) =
            (self.terms.max_bytes.as_bytes(), self.terms.max_time.as_ms());
        let fitting = |used: u64, most: u64| {
            if used > most {
                Some(rows.saturating_mul(most) / used)
            } else {
                None
            }
        };
        let smaller = [fitting(bytes, most_bytes), fitting(time, most_time)];
        let ask = match smaller.into_iter().flatten().min() {
            Some(rows) => u32::try_from(rows).unwrap_or(u32::MAX),
            None if bytes <= most_bytes / 2 && time <= most_time / 2 => self.ask.saturating_mul(2),
            None => self.ask,
        };
        ask.clamp(1, self.terms.max_rows.max(1))
    }
}

impl Settle for CursorState {
    fn settle(&mut self) {
        self.errors.settle();
        self.recent.settle();
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::{ByteSize, TaskErrorKind};

    use super::*;

    fn cursor(chains: u32) -> CursorState {
        CursorState::new(CursorTerms {
            chains,
            max_rows: 100,
            max_time: Millis::from_secs(30),
            max_bytes: ByteSize::from_kib(64),
            lease: Millis::from_secs(120),
            heartbeat: Millis::from_secs(30),
            max_attempts: 3,
        })
    }

    fn closed(command: i64, rows: u32) -> ClosedFrame {
        ClosedFrame {
            command: CommandId::new(command).unwrap(),
            frame: 0,
            error: None,
            report: Some(FrameReport {
                rows,
                done: rows,
                ..FrameReport::default()
            }),
            took: None,
        }
    }

    #[test]
    fn a_frame_over_its_budget_is_followed_by_a_smaller_one() {
        let mut cursor = cursor(1);
        let mut asks = Vec::new();
        for (secs, kib) in [(10, 1), (60, 1), (30, 1), (1, 256), (1, 1), (900_000, 1)] {
            let mut frame = closed(1, cursor.ask);
            frame.took = Some(Millis::from_secs(secs));
            if let Some(report) = &mut frame.report {
                report.bytes = kib << 10;
            }
            cursor.close(frame);
            asks.push(cursor.ask);
        }
        assert_eq!(asks, [100, 50, 50, 12, 24, 1]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut cursor = cursor(1);
        for command in 1..=3000 {
            let mut frame = closed(command, 1);
            frame.error = Some(TaskError::new(TaskErrorKind::Unknown, "no"));
            cursor.close(frame);
        }
        assert_eq!(cursor.recent.len(), MAX_RECENT);
        assert_eq!(cursor.errors.len(), MAX_KEPT_ERRORS);
        assert_eq!(cursor.stats().frames, Some(3000));
        assert!(!cursor.is_complete());
        cursor.close(closed(3001, 0));
        assert!(cursor.is_complete());
    }
}
