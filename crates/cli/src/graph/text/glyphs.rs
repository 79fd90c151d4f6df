//! Characters of a text drawing.

/// Characters of a text drawing.
#[derive(Debug)]
pub(super) struct Glyphs {
    pub(super) step: &'static str,
    /// A step with a loop.
    pub(super) looping: &'static str,
    /// The final step.
    pub(super) final_step: &'static str,
    /// An unreachable step.
    pub(super) unreachable: &'static str,
    /// Vertical line.
    pub(super) down: &'static str,
    /// Branch with more below it.
    pub(super) tee: &'static str,
    /// Last branch.
    pub(super) corner: &'static str,
    /// Arc to a step drawn elsewhere.
    pub(super) to: &'static str,
    /// Arc back to a step above.
    pub(super) back: &'static str,
    /// Arc to failure.
    pub(super) fail: &'static str,
    /// Between the tasks of a pipeline.
    pub(super) then: &'static str,
    /// Before the number of equal tasks.
    pub(super) times: &'static str,
    /// Between facts.
    pub(super) separator: &'static str,
    /// End of shortened text.
    pub(super) ellipsis: &'static str,
}

pub(super) const UNICODE_GLYPHS: Glyphs = Glyphs {
    step: "●",
    looping: "⟳",
    final_step: "■",
    unreachable: "○",
    down: "│",
    tee: "├─",
    corner: "╰─",
    to: "→ ",
    back: "↩ ",
    fail: "✗ ",
    then: " → ",
    times: " ×",
    separator: " · ",
    ellipsis: "…",
};

pub(super) const ASCII_GLYPHS: Glyphs = Glyphs {
    step: "*",
    looping: "@",
    final_step: "#",
    unreachable: "o",
    down: "|",
    tee: "|-",
    corner: "`-",
    to: "> ",
    back: "^ ",
    fail: "! ",
    then: " > ",
    times: " x",
    separator: " - ",
    ellipsis: "...",
};
