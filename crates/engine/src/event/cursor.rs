//! What events say of loops over a cursor.

use noetl_types::{ByteSize, Millis, Text};
use serde::{Deserialize, Serialize};

/// A run of a step that loops over a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorEntered {
    /// The name of the row.
    pub iterator: Text,
    /// How it goes through the rows.
    pub terms: CursorTerms,
}

/// How a loop goes through the rows of its cursor, every template settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorTerms {
    /// Chains of frames that run side by side.
    pub chains: u32,
    /// Rows that a frame asks for at most.
    pub max_rows: u32,
    /// Time that a frame should not take longer than.
    pub max_time: Millis,
    /// Bytes that the rows of a frame should not be larger than.
    pub max_bytes: ByteSize,
    /// Lease of a frame.
    pub lease: Millis,
    /// How often the worker of a frame should be heard of.
    pub heartbeat: Millis,
    /// How often a frame is handed out in all.
    pub max_attempts: u32,
}

/// What a command asks its cursor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAsk {
    /// How many rows at most.
    pub max_rows: u32,
    /// Lease of the frame.
    pub lease: Millis,
    /// How often its worker should be heard of.
    pub heartbeat: Millis,
}
