//! Rows of a text drawing, from top to bottom.

use anstyle::Style;
use noetl_playbook::graph::{EdgeTarget, StepIndex};
use noetl_playbook::model::RouterMode;

use super::flow::{FlowGraph, FlowStep};
use super::plan::{ArcGroup, DrawingPlan, DrawingSection};
use super::text::Glyphs;
use crate::render::{palette, text_layout};

/// Maximum steps named in a list.
const MAX_NAMED_STEPS: usize = 4;

/// Row of a drawing.
#[derive(Debug)]
pub(super) struct DrawingRow {
    /// Tree lines, then the name and the target.
    pub(super) lead: Vec<StyledText>,
    pub(super) tool: String,
    pub(super) notes: Vec<StyledText>,
    /// Tree lines that continue below, for notes with several lines.
    pub(super) tail: String,
}

impl DrawingRow {
    /// Row without a name.
    fn tree_line(tree: String, notes: Vec<StyledText>) -> Self {
        let lead = vec![StyledText::new(palette::MUTED, tree.clone())];
        Self { lead, tool: String::new(), notes, tail: tree }
    }

    /// True if it has no name.
    pub(super) fn is_tree_line(&self) -> bool {
        self.lead.len() == 1
    }

    /// Width of the tree, the name and the target.
    pub(super) fn lead_width(&self) -> usize {
        self.lead.iter().map(|piece| text_layout::display_width(&piece.text)).sum()
    }
}

/// Text with a style.
#[derive(Debug)]
pub(super) struct StyledText {
    pub(super) style: Style,
    pub(super) text: String,
}

impl StyledText {
    fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }
}

/// Builds the rows of a drawing.
pub(super) fn build_rows(flow: &FlowGraph, plan: &DrawingPlan, glyphs: &Glyphs) -> Vec<DrawingRow> {
    let mut walk = TreeWalk { flow, plan, glyphs, section: DrawingSection::Main, rows: Vec::new() };
    let mut previous = DrawingSection::Main;
    for (section, root) in &plan.margin {
        walk.section = *section;
        if !walk.rows.is_empty() {
            walk.rows.push(DrawingRow::tree_line(String::new(), Vec::new()));
        }
        if *section == DrawingSection::Unreached && previous != DrawingSection::Unreached {
            let mut row = DrawingRow::tree_line(String::new(), Vec::new());
            row.lead.push(StyledText::new(palette::CAUTION, "never reached"));
            walk.rows.push(row);
        }
        previous = *section;
        walk.draw_root(*root);
    }
    walk.rows
}

/// Connection of a step to the one below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepLink {
    None,
    /// By its last arc.
    Arc,
    /// By its branches, which meet there.
    Branches,
}

/// Column of steps being drawn.
struct StepColumn {
    steps: Vec<StepIndex>,
    /// Index of the current step.
    index: usize,
    /// Number of its exits already drawn.
    exits: usize,
    /// Tree lines to the left of the column.
    prefix: String,
}

/// Tree lines to the left of a step.
#[derive(Debug, Clone, Copy)]
struct TreeLines<'t> {
    /// On the row of the step.
    lead: &'t str,
    /// On the rows below it.
    prefix: &'t str,
}

struct TreeWalk<'f> {
    flow: &'f FlowGraph,
    plan: &'f DrawingPlan,
    glyphs: &'f Glyphs,
    section: DrawingSection,
    rows: Vec<DrawingRow>,
}

impl TreeWalk<'_> {
    /// Draws the tree of `root` at the left margin.
    fn draw_root(&mut self, root: StepIndex) {
        let mut columns = vec![self.open_column(root, String::new(), "", None)];
        while let Some(column) = columns.last_mut() {
            let step = column.steps[column.index];
            let next = column.steps.get(column.index + 1).copied();
            let link = self.link_to_next(step, next);
            let exits = self.count_exits(step, link);
            if column.exits < exits {
                column.exits += 1;
                let continues = column.exits < exits || link != StepLink::None;
                let (prefix, exit) = (column.prefix.clone(), column.exits - 1);
                columns.extend(self.draw_exit(step, exit, &prefix, continues));
            } else if let Some(next) = next {
                column.index += 1;
                column.exits = 0;
                let (prefix, below) =
                    (column.prefix.clone(), column.steps.get(column.index + 1).copied());
                self.draw_connection(step, link, &prefix);
                let tree = TreeLines { lead: &prefix, prefix: &prefix };
                self.draw_step(next, below, tree, None);
            } else {
                columns.pop();
            }
        }
    }

    /// Draws the first step of a column.
    fn open_column(
        &mut self,
        first: StepIndex,
        prefix: String,
        lead: &str,
        arc_note: Option<StyledText>,
    ) -> StepColumn {
        let steps = self.plan.column_steps(first);
        let tree = TreeLines { lead, prefix: &prefix };
        self.draw_step(first, steps.get(1).copied(), tree, arc_note);
        StepColumn { steps, index: 0, exits: 0, prefix }
    }

    fn link_to_next(&self, step: StepIndex, next: Option<StepIndex>) -> StepLink {
        let Some(next) = next else {
            return StepLink::None;
        };
        let last = self.plan.groups(step).last();
        if last.is_some_and(|group| !group.is_back && group.target == EdgeTarget::Step(next)) {
            StepLink::Arc
        } else if self.plan.is_join_of(next, step) {
            StepLink::Branches
        } else {
            StepLink::None
        }
    }

    /// Label of the only arc of a step, if it is always taken and its target is drawn elsewhere.
    fn single_target_label(&self, step: StepIndex, link: StepLink) -> Option<StyledText> {
        let [group] = self.plan.groups(step) else {
            return None;
        };
        let is_single_exit = link == StepLink::None
            && self.plan.branch_target(step, group).is_none()
            && !self.flow.flow_step(step).fails_unmatched
            && self.arc_group_condition(step, group).is_none();
        is_single_exit.then(|| {
            let StyledText { style, text } = self.target_label(group);
            StyledText::new(style, format!(" {text}"))
        })
    }

    /// Label with the target of an arc.
    fn target_label(&self, group: &ArcGroup) -> StyledText {
        match group.target {
            EdgeTarget::End => StyledText::new(palette::MUTED, format!("{}end", self.glyphs.to)),
            EdgeTarget::Step(target) => {
                let name = text_layout::escape_control(&self.flow.flow_step(target).name);
                if group.is_back {
                    StyledText::new(palette::BACK_ARC, format!("{}{name}", self.glyphs.back))
                } else {
                    StyledText::new(Style::new(), format!("{}{name}", self.glyphs.to))
                }
            }
        }
    }

    /// Number of exits of a step, except the one straight down and one written next to its name.
    fn count_exits(&self, step: StepIndex, link: StepLink) -> usize {
        if self.single_target_label(step, link).is_some() {
            return 0;
        }
        let down = usize::from(link == StepLink::Arc);
        let fail = usize::from(self.flow.flow_step(step).fails_unmatched);
        self.plan.groups(step).len() - down + fail
    }

    /// Draws an exit. A branch opens a new column.
    fn draw_exit(
        &mut self,
        step: StepIndex,
        exit: usize,
        prefix: &str,
        continues: bool,
    ) -> Option<StepColumn> {
        let lead = if continues { self.glyphs.tee } else { self.glyphs.corner };
        let below = if continues {
            format!("{prefix}{} ", self.glyphs.down)
        } else {
            format!("{prefix}  ")
        };
        let tree = format!("{prefix}{lead}");
        let (label, note) = match self.plan.groups(step).get(exit) {
            None => {
                let fail = StyledText::new(palette::FAILURE, format!("{}fail", self.glyphs.fail));
                (fail, Some(StyledText::new(palette::CONDITION, "if no arc matches")))
            }
            Some(group) => {
                let note = self.arc_group_condition(step, group);
                if let Some(branch) = self.plan.branch_target(step, group) {
                    return Some(self.open_column(branch, below, &tree, note));
                }
                (self.target_label(group), note)
            }
        };
        self.rows.push(DrawingRow {
            lead: vec![StyledText::new(palette::MUTED, tree), label],
            tool: String::new(),
            notes: note.into_iter().collect(),
            tail: below,
        });
        None
    }

    /// Draws the connection of a step to the one below it.
    fn draw_connection(&mut self, step: StepIndex, link: StepLink, prefix: &str) {
        let groups = self.plan.groups(step);
        let note = groups
            .last()
            .filter(|_| link == StepLink::Arc)
            .and_then(|group| self.arc_group_condition(step, group));
        let line = if link == StepLink::None { "" } else { self.glyphs.down };
        self.rows
            .push(DrawingRow::tree_line(format!("{prefix}{line}"), note.into_iter().collect()));
    }

    fn draw_step(
        &mut self,
        index: StepIndex,
        next: Option<StepIndex>,
        tree: TreeLines<'_>,
        arc_note: Option<StyledText>,
    ) {
        let step = self.flow.flow_step(index);
        let (glyph, style) = match self.section {
            DrawingSection::Main if step.looping.is_some() => (self.glyphs.looping, palette::CODE),
            DrawingSection::Main => (self.glyphs.step, palette::SUCCESS),
            DrawingSection::Final => (self.glyphs.final_step, palette::JOIN),
            DrawingSection::Unreached => (self.glyphs.unreachable, palette::CAUTION),
        };
        let link = self.link_to_next(index, next);
        let continues = link != StepLink::None || self.count_exits(index, link) > 0;
        let line = if continues { self.glyphs.down } else { "" };
        let mut lead = vec![
            StyledText::new(palette::MUTED, tree.lead),
            StyledText::new(style, glyph),
            StyledText::new(palette::NAME, format!(" {}", text_layout::escape_control(&step.name))),
        ];
        lead.extend(self.single_target_label(index, link));
        let mut notes: Vec<StyledText> = arc_note.into_iter().collect();
        self.push_step_notes(index, step, &mut notes);
        self.rows.push(DrawingRow {
            lead,
            tool: self.tool_text(step),
            notes,
            tail: format!("{}{line}", tree.prefix),
        });
    }

    fn push_step_notes(&self, index: StepIndex, step: &FlowStep, notes: &mut Vec<StyledText>) {
        if self.section == DrawingSection::Final && self.flow.final_step == Some(index) {
            notes.push(StyledText::new(palette::JOIN, "runs last, regardless of the outcome"));
        }
        let predecessors = self.plan.predecessors(index);
        if predecessors.len() > 1 || (!predecessors.is_empty() && !self.plan.is_branch(index)) {
            notes.push(StyledText::new(
                palette::JOIN,
                format!("after {}", self.join_step_names(predecessors)),
            ));
        }
        let back = self.plan.back_from(index);
        if !back.is_empty() {
            let text = format!("{}again after {}", self.glyphs.back, self.join_step_names(back));
            notes.push(StyledText::new(palette::BACK_ARC, text));
        }
        if let Some(looping) = &step.looping {
            notes.push(StyledText::new(palette::CODE, text_layout::escape_control(looping)));
        }
        if let Some(guard) = &step.guard {
            notes.push(StyledText::new(
                palette::CONDITION,
                format!("only when {}", text_layout::escape_control(guard)),
            ));
        }
        if step.admission {
            notes.push(StyledText::new(palette::CONDITION, "only if its admission rules allow it"));
        }
        if step.mode == RouterMode::Inclusive && self.plan.groups(index).len() > 1 {
            let is_unconditional = step.arcs.iter().all(|arc| arc.when.is_none());
            let text = if is_unconditional { "takes all arcs" } else { "takes every matching arc" };
            notes.push(StyledText::new(palette::MUTED, text));
        }
    }

    fn join_step_names(&self, steps: &[StepIndex]) -> String {
        let name = |step: &StepIndex| text_layout::escape_control(&self.flow.flow_step(*step).name);
        if steps.len() <= MAX_NAMED_STEPS {
            return steps.iter().map(name).collect::<Vec<_>>().join(", ");
        }
        let names: Vec<String> = steps.iter().take(MAX_NAMED_STEPS - 1).map(name).collect();
        format!("{} and {} more", names.join(", "), steps.len() - names.len())
    }

    /// Kinds of the tasks of a step. Consecutive equal kinds are counted.
    fn tool_text(&self, step: &FlowStep) -> String {
        let runs: Vec<String> = step
            .tools
            .chunk_by(|a, b| a == b)
            .map(|run| match run {
                [kind] => (*kind).to_owned(),
                run => format!("{}{}{}", run[0], self.glyphs.times, run.len()),
            })
            .collect();
        match &*runs {
            [first, second, _, .., last] => {
                [first, second, self.glyphs.ellipsis, last].join(self.glyphs.then)
            }
            runs => runs.join(self.glyphs.then),
        }
    }

    /// Condition of the arcs of a group.
    fn arc_group_condition(&self, step: StepIndex, group: &ArcGroup) -> Option<StyledText> {
        let step = self.flow.flow_step(step);
        let mut parts: Vec<String> = Vec::new();
        for arc in &group.arcs {
            let part = text_layout::escape_control(&step.arc_condition(*arc)?);
            match part.strip_prefix("else ") {
                Some(rest) if !parts.is_empty() => parts.push(rest.to_owned()),
                Some(_) | None => parts.push(part),
            }
        }
        Some(StyledText::new(palette::CONDITION, parts.join("; or ")))
    }
}
