//! The rows of a drawing, from top to bottom.

use anstyle::Style;
use noetl_playbook::graph::{StepIndex, Target};
use noetl_playbook::model::RouterMode;

use super::glyphs::Glyphs;
use crate::graph::flow::{Flow, FlowStep};
use crate::graph::plan::{Group, Plan, Section};
use crate::render::{palette, words};

/// A list of steps names no more than this many of them.
const MAX_NAMED: usize = 4;

/// A row of a drawing.
#[derive(Debug)]
pub(super) struct Row {
    /// The lines of the tree, then the name and where it leads.
    pub(super) lead: Vec<Piece>,
    pub(super) tool: String,
    pub(super) notes: Vec<Piece>,
    /// The lines of the tree that go on below, for notes that need more lines.
    pub(super) tail: String,
}

impl Row {
    /// A row without a name.
    fn line(tree: String, notes: Vec<Piece>) -> Self {
        let lead = vec![Piece::new(palette::QUIET, tree.clone())];
        Self {
            lead,
            tool: String::new(),
            notes,
            tail: tree,
        }
    }

    /// Whether it has no name.
    pub(super) fn is_line(&self) -> bool {
        self.lead.len() == 1
    }

    /// How many columns the tree, the name and where it leads take.
    pub(super) fn lead_width(&self) -> usize {
        self.lead
            .iter()
            .map(|piece| words::columns(&piece.text))
            .sum()
    }
}

/// A text in a style.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) style: Style,
    pub(super) text: String,
}

impl Piece {
    fn new(style: Style, text: impl Into<String>) -> Self {
        Self {
            style,
            text: text.into(),
        }
    }
}

/// The rows of a drawing.
pub(super) fn rows(flow: &Flow, plan: &Plan, glyphs: &Glyphs) -> Vec<Row> {
    let mut walk = Walk {
        flow,
        plan,
        glyphs,
        section: Section::Main,
        rows: Vec::new(),
    };
    let mut before = Section::Main;
    for (section, root) in &plan.margin {
        walk.section = *section;
        if !walk.rows.is_empty() {
            walk.rows.push(Row::line(String::new(), Vec::new()));
        }
        if *section == Section::Unreached && before != Section::Unreached {
            let mut row = Row::line(String::new(), Vec::new());
            row.lead.push(Piece::new(palette::DOUBT, "never reached"));
            walk.rows.push(row);
        }
        before = *section;
        walk.draw(*root);
    }
    walk.rows
}

/// How a step is joined to the one below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Not at all.
    None,
    /// By its last arc.
    Arc,
    /// By its branches, which meet there.
    Branches,
}

/// A column of steps that is being drawn.
struct Column {
    steps: Vec<StepIndex>,
    /// The step that is being drawn.
    at: usize,
    /// How many of its ways off are drawn.
    exits: usize,
    /// The tree to the left of the column.
    prefix: String,
}

struct Walk<'f> {
    flow: &'f Flow,
    plan: &'f Plan,
    glyphs: &'f Glyphs,
    section: Section,
    rows: Vec<Row>,
}

impl Walk<'_> {
    /// Draws what stands at the left margin under `root`.
    fn draw(&mut self, root: StepIndex) {
        let mut columns = vec![self.open(root, String::new(), "", None)];
        while let Some(column) = columns.last_mut() {
            let step = column.steps[column.at];
            let next = column.steps.get(column.at + 1).copied();
            let link = self.link(step, next);
            let exits = self.exits(step, link);
            if column.exits < exits {
                column.exits += 1;
                let goes_on = column.exits < exits || link != Link::None;
                let (prefix, exit) = (column.prefix.clone(), column.exits - 1);
                columns.extend(self.exit(step, exit, &prefix, goes_on));
            } else if let Some(next) = next {
                column.at += 1;
                column.exits = 0;
                let (prefix, below) = (
                    column.prefix.clone(),
                    column.steps.get(column.at + 1).copied(),
                );
                self.way_down(step, link, &prefix);
                self.step(next, below, (&prefix, &prefix), None);
            } else {
                columns.pop();
            }
        }
    }

    /// Draws the first step of a column.
    fn open(
        &mut self,
        first: StepIndex,
        prefix: String,
        lead: &str,
        arrival: Option<Piece>,
    ) -> Column {
        let steps = self.plan.column(first);
        self.step(first, steps.get(1).copied(), (&prefix, lead), arrival);
        Column {
            steps,
            at: 0,
            exits: 0,
            prefix,
        }
    }

    fn link(&self, step: StepIndex, next: Option<StepIndex>) -> Link {
        let Some(next) = next else { return Link::None };
        let last = self.plan.groups(step).last();
        if last.is_some_and(|group| !group.back && group.target == Target::Step(next)) {
            Link::Arc
        } else if self.plan.is_join_of(next, step) {
            Link::Branches
        } else {
            Link::None
        }
    }

    /// The one arc of a step, where it is always taken and leads to what is drawn elsewhere.
    fn only_mention(&self, step: StepIndex, link: Link) -> Option<Piece> {
        let [group] = self.plan.groups(step) else {
            return None;
        };
        let says_all = link == Link::None
            && self.plan.branch(step, group).is_none()
            && !self.flow.step(step).fails_unmatched
            && self.condition(step, group).is_none();
        says_all.then(|| {
            let Piece { style, text } = self.mention(group);
            Piece::new(style, format!(" {text}"))
        })
    }

    /// How to write where an arc leads.
    fn mention(&self, group: &Group) -> Piece {
        match group.target {
            Target::End => Piece::new(palette::QUIET, format!("{}end", self.glyphs.to)),
            Target::Step(target) => {
                let name = words::visible(&self.flow.step(target).name);
                if group.back {
                    Piece::new(palette::BACK, format!("{}{name}", self.glyphs.back))
                } else {
                    Piece::new(Style::new(), format!("{}{name}", self.glyphs.to))
                }
            }
        }
    }

    /// How many ways lead off a step, apart from the one straight down and one told beside its name.
    fn exits(&self, step: StepIndex, link: Link) -> usize {
        if self.only_mention(step, link).is_some() {
            return 0;
        }
        let down = usize::from(link == Link::Arc);
        let fail = usize::from(self.flow.step(step).fails_unmatched);
        self.plan.groups(step).len() - down + fail
    }

    /// Draws a way off; a branch opens a column of its own.
    fn exit(
        &mut self,
        step: StepIndex,
        exit: usize,
        prefix: &str,
        goes_on: bool,
    ) -> Option<Column> {
        let lead = if goes_on {
            self.glyphs.tee
        } else {
            self.glyphs.corner
        };
        let below = if goes_on {
            format!("{prefix}{} ", self.glyphs.down)
        } else {
            format!("{prefix}  ")
        };
        let tree = format!("{prefix}{lead}");
        let (mention, note) = match self.plan.groups(step).get(exit) {
            None => {
                let fail = Piece::new(palette::BAD, format!("{}fail", self.glyphs.fail));
                (
                    fail,
                    Some(Piece::new(palette::CONDITION, "where no arc holds")),
                )
            }
            Some(group) => {
                let note = self.condition(step, group);
                if let Some(branch) = self.plan.branch(step, group) {
                    return Some(self.open(branch, below, &tree, note));
                }
                (self.mention(group), note)
            }
        };
        self.rows.push(Row {
            lead: vec![Piece::new(palette::QUIET, tree), mention],
            tool: String::new(),
            notes: note.into_iter().collect(),
            tail: below,
        });
        None
    }

    /// Draws the way from a step to the one below it.
    fn way_down(&mut self, step: StepIndex, link: Link, prefix: &str) {
        let groups = self.plan.groups(step);
        let note = groups
            .last()
            .filter(|_| link == Link::Arc)
            .and_then(|group| self.condition(step, group));
        let way = if link == Link::None {
            ""
        } else {
            self.glyphs.down
        };
        self.rows.push(Row::line(
            format!("{prefix}{way}"),
            note.into_iter().collect(),
        ));
    }

    /// Draws a step.
    fn step(
        &mut self,
        index: StepIndex,
        next: Option<StepIndex>,
        (prefix, lead): (&str, &str),
        arrival: Option<Piece>,
    ) {
        let step = self.flow.step(index);
        let (glyph, style) = match self.section {
            Section::Main if step.looping.is_some() => (self.glyphs.looping, palette::CODE),
            Section::Main => (self.glyphs.step, palette::GOOD),
            Section::Final => (self.glyphs.last, palette::JOIN),
            Section::Unreached => (self.glyphs.lost, palette::DOUBT),
        };
        let link = self.link(index, next);
        let goes_on = link != Link::None || self.exits(index, link) > 0;
        let way = if goes_on { self.glyphs.down } else { "" };
        let mut row_lead = vec![
            Piece::new(palette::QUIET, lead),
            Piece::new(style, glyph),
            Piece::new(palette::NAME, format!(" {}", words::visible(&step.name))),
        ];
        row_lead.extend(self.only_mention(index, link));
        let mut notes: Vec<Piece> = arrival.into_iter().collect();
        self.remarks(index, step, &mut notes);
        self.rows.push(Row {
            lead: row_lead,
            tool: self.tool(step),
            notes,
            tail: format!("{prefix}{way}"),
        });
    }

    fn remarks(&self, index: StepIndex, step: &FlowStep, notes: &mut Vec<Piece>) {
        if self.section == Section::Final && self.flow.final_step == Some(index) {
            notes.push(Piece::new(palette::JOIN, "runs last, however the run ends"));
        }
        let before = self.plan.before(index);
        if before.len() > 1 || (!before.is_empty() && !self.plan.is_branch(index)) {
            notes.push(Piece::new(
                palette::JOIN,
                format!("after {}", self.names(before)),
            ));
        }
        let back = self.plan.back_from(index);
        if !back.is_empty() {
            let text = format!("{}again after {}", self.glyphs.back, self.names(back));
            notes.push(Piece::new(palette::BACK, text));
        }
        if let Some(looping) = &step.looping {
            notes.push(Piece::new(palette::CODE, words::visible(looping)));
        }
        if let Some(guard) = &step.guard {
            notes.push(Piece::new(
                palette::CONDITION,
                format!("only when {}", words::visible(guard)),
            ));
        }
        if step.admission {
            notes.push(Piece::new(
                palette::CONDITION,
                "only when its rules admit it",
            ));
        }
        if step.mode == RouterMode::Inclusive && self.plan.groups(index).len() > 1 {
            let all = step.arcs.iter().all(|arc| arc.when.is_none());
            let text = if all {
                "takes all arcs"
            } else {
                "takes every arc that holds"
            };
            notes.push(Piece::new(palette::QUIET, text));
        }
    }

    fn names(&self, steps: &[StepIndex]) -> String {
        let name = |step: &StepIndex| words::visible(&self.flow.step(*step).name);
        if steps.len() <= MAX_NAMED {
            return steps.iter().map(name).collect::<Vec<_>>().join(", ");
        }
        let named: Vec<String> = steps.iter().take(MAX_NAMED - 1).map(name).collect();
        format!(
            "{} and {} more",
            named.join(", "),
            steps.len() - named.len()
        )
    }

    /// The kinds of the tasks of a step, equal neighbours counted.
    fn tool(&self, step: &FlowStep) -> String {
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

    /// When the arcs of a group are taken.
    fn condition(&self, step: StepIndex, group: &Group) -> Option<Piece> {
        let step = self.flow.step(step);
        let mut parts: Vec<String> = Vec::new();
        for at in &group.arcs {
            let part = words::visible(&step.taken(*at)?);
            match part.strip_prefix("else ") {
                Some(rest) if !parts.is_empty() => parts.push(rest.to_owned()),
                Some(_) | None => parts.push(part),
            }
        }
        Some(Piece::new(palette::CONDITION, parts.join("; or ")))
    }
}
