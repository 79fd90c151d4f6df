//! The letters of a drawing.

/// The letters of a drawing.
#[derive(Debug)]
pub(super) struct Glyphs {
    /// A step.
    pub(super) step: &'static str,
    /// A step that loops.
    pub(super) looping: &'static str,
    /// The final step.
    pub(super) last: &'static str,
    /// A step that nothing leads to.
    pub(super) lost: &'static str,
    /// A way down.
    pub(super) down: &'static str,
    /// A way off, with more below it.
    pub(super) tee: &'static str,
    /// The last way off.
    pub(super) corner: &'static str,
    /// To a step that is drawn elsewhere.
    pub(super) to: &'static str,
    /// Back to a step above.
    pub(super) back: &'static str,
    /// Into failure.
    pub(super) fail: &'static str,
    /// Between the tasks of a pipeline.
    pub(super) then: &'static str,
    /// Before the number of equal tasks.
    pub(super) times: &'static str,
    /// Between facts.
    pub(super) and: &'static str,
    /// For what was left out.
    pub(super) ellipsis: &'static str,
}

pub(super) const UNICODE: Glyphs = Glyphs {
    step: "●",
    looping: "⟳",
    last: "■",
    lost: "○",
    down: "│",
    tee: "├─",
    corner: "╰─",
    to: "→ ",
    back: "↩ ",
    fail: "✗ ",
    then: " → ",
    times: " ×",
    and: " · ",
    ellipsis: "…",
};

pub(super) const ASCII: Glyphs = Glyphs {
    step: "*",
    looping: "@",
    last: "#",
    lost: "o",
    down: "|",
    tee: "|-",
    corner: "`-",
    to: "> ",
    back: "^ ",
    fail: "! ",
    then: " > ",
    times: " x",
    and: " - ",
    ellipsis: "...",
};
