//! Limits on the cost of one template.

use noetl_types::limits::MAX_JSON_DEPTH;

/// Limits for parsing and rendering one template.
///
/// Operators can configure them. A template that exceeds a limit ends with an error and never
/// brings down the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TemplateLimits {
    /// Units of work of one render: one for each operation, and one for each item or 64 bytes that
    /// an operation processes.
    pub fuel: u64,
    /// Levels of brackets and blocks in the text, and of lists and maps in a value that a render
    /// builds. Capped at [`MAX_JSON_DEPTH`].
    pub nesting: usize,
    /// Bytes of the text or of the canonical JSON that a render yields.
    pub output: usize,
    /// Numbers that one `range()` may yield.
    pub range: u64,
    /// Tokens of one `{{ }}` or `{% %}`.
    pub tokens: usize,
    /// Bytes of all values that one render creates, including the output.
    pub memory: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self {
            fuel: 1_000_000,
            nesting: MAX_JSON_DEPTH,
            output: 16 << 20,
            range: 100_000,
            tokens: 10_000,
            memory: 40 << 20,
        }
    }
}

impl TemplateLimits {
    /// The effective nesting limit.
    pub(super) fn max_depth(&self) -> usize {
        self.nesting.min(MAX_JSON_DEPTH)
    }
}
