//! Payloads of events of loops over a cursor.

use noetl_types::{ByteSize, Millis, Text};
use serde::{Deserialize, Serialize};

/// Cursor of a step pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorEntered {
    /// Name of the row variable.
    pub iterator: Text,
    /// Settings of the cursor.
    pub terms: CursorSettings,
}

/// Settings of a loop over a cursor, with all templates rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorSettings {
    /// Number of parallel chains of frames.
    pub chains: u32,
    /// Maximum number of rows per frame.
    pub max_rows: u32,
    /// Target for the maximum duration of a frame.
    pub max_time: Millis,
    /// Target for the maximum size of the rows of a frame.
    pub max_bytes: ByteSize,
    /// Lease duration of a frame.
    pub lease: Millis,
    /// Heartbeat interval of the worker of a frame.
    pub heartbeat: Millis,
    /// Maximum number of attempts of a frame.
    pub max_attempts: u32,
}

/// Rows that a command requests from its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRequest {
    /// Maximum number of rows.
    pub max_rows: u32,
    /// Lease duration of the frame.
    pub lease: Millis,
    /// Heartbeat interval of its worker.
    pub heartbeat: Millis,
}
