//! What one template may cost.

use noetl_types::limits::MAX_JSON_DEPTH;

/// Bounds of reading and rendering one template.
///
/// They are operator configuration: a template that passes one of them stops with an error, it
/// never takes the process with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TemplateLimits {
    /// Units of work of one render: one for each operation, and for each item or 64 bytes that an
    /// operation goes through.
    pub fuel: u64,
    /// Levels of brackets and blocks in the text, and of lists and maps in a value that a render
    /// builds. More than [`MAX_JSON_DEPTH`] counts as that many.
    pub nesting: usize,
    /// Bytes of the text or of the canonical JSON that a render yields.
    pub output: usize,
    /// Numbers that one `range()` may yield.
    pub range: u64,
    /// Tokens of one `{{ }}` or `{% %}`.
    pub tokens: usize,
    /// Bytes of all values that one render makes, the output included.
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
    /// The levels of nesting that are really allowed.
    pub(super) fn depth(&self) -> usize {
        self.nesting.min(MAX_JSON_DEPTH)
    }
}
