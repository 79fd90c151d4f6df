//! The append statement, as far as a group needs it.
//!
//! The server sets up every part of a statement before it runs, whether the part has rows or not;
//! for one append by itself that is most of its work. So a statement has only the parts that its
//! group needs. Groups of the same parts share a prepared statement.

use crate::row::{COMMAND, EVENT, EXECUTION, EXECUTION_CHANGING, Kind, PATCH, RARE, RESULT, Rows};

use super::block::{Block, Shape};

/// What an append may do besides writing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Makes the execution.
    Starts,
    /// Follows what is there.
    Advances,
    /// Depends on leases.
    Fences,
    /// Issues commands.
    Issues,
    /// Changes commands.
    Patches,
    /// Changes timers.
    Timers,
    /// Brings results.
    Results,
    /// Has events with unusual columns.
    Rare,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Starts,
        Self::Advances,
        Self::Fences,
        Self::Issues,
        Self::Patches,
        Self::Timers,
        Self::Results,
        Self::Rare,
    ];

    fn is_in(self, rows: &Rows) -> bool {
        match self {
            Self::Starts => rows.starts,
            Self::Advances => !rows.starts,
            Self::Fences => !rows.fences.is_empty(),
            Self::Issues => !rows.issued.is_empty(),
            Self::Patches => !rows.patches.is_empty(),
            Self::Timers => !rows.timers.is_empty(),
            Self::Results => !rows.results.is_empty(),
            Self::Rare => !rows.is_lean,
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// What a group does besides writing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parts(u8);

impl Parts {
    /// Everything.
    pub(super) const ALL: Self = Self(u8::MAX);

    pub(super) fn of(items: &[&Rows]) -> Self {
        let needed = Part::ALL
            .into_iter()
            .filter(|part| items.iter().any(|rows| part.is_in(rows)));
        Self(needed.fold(0, |parts, part| parts | part.bit()))
    }

    pub(super) fn has(self, part: Part) -> bool {
        self.0 & part.bit() != 0
    }

    /// Whether commands that exist are locked.
    pub(super) fn touches(self) -> bool {
        self.has(Part::Fences) || self.has(Part::Patches)
    }

    /// Whether lines under a name of the statement are wanted.
    fn wants(self, name: &str) -> bool {
        match name {
            "starts" => self.has(Part::Starts),
            "advances" => self.has(Part::Advances),
            "fences" => self.has(Part::Fences),
            "issues" => self.has(Part::Issues),
            "patches" => self.has(Part::Patches),
            "timers" => self.has(Part::Timers),
            "results" => self.has(Part::Results),
            "touches" => self.touches(),
            other => {
                debug_assert!(false, "the statement has no part {other}");
                true
            }
        }
    }

    /// The statement. Its parameters are those of [`Parts::blocks`], then the ids of the executions, then,
    /// where commands are touched, the ids of those.
    pub(super) fn statement(self) -> String {
        let mut sql = self.template();
        let mut used = 0;
        for (name, shape) in self.shapes() {
            if let Some(shape) = shape {
                sql = sql.replace(name, &shape.unnest(&mut used));
            }
        }
        let is_sent = |name: &str| self.sends(name);
        for (name, text) in [
            ("{executions}", format!("${}::bigint[]", used + 1)),
            ("{commands}", format!("${}::bigint[]", used + 2)),
            ("{execution_columns}", EXECUTION.list()),
            ("{item_execution_columns}", EXECUTION.list_of("item.")),
            ("{changing_columns}", EXECUTION_CHANGING.list()),
            (
                "{item_changing_columns}",
                EXECUTION_CHANGING.list_of("item."),
            ),
            ("{event_columns}", EVENT.list_where("", is_sent)),
            (
                "{new_event_columns}",
                EVENT.list_where("new_event.", is_sent),
            ),
            ("{command_columns}", COMMAND.list()),
            ("{new_command_columns}", COMMAND.list_of("new_command.")),
            ("{result_columns}", RESULT.list()),
            ("{new_result_columns}", RESULT.list_of("new_result.")),
        ] {
            sql = sql.replace(name, &text);
        }
        sql
    }

    /// Whether a column of an event is sent.
    fn sends(self, column: &str) -> bool {
        self.has(Part::Rare) || !RARE.contains(&column)
    }

    fn template(self) -> String {
        let mut text = String::new();
        let mut is_wanted = true;
        for line in include_str!("sql/append.sql").lines() {
            if let Some(name) = line.strip_prefix("--if ") {
                is_wanted = self.wants(name);
            } else if line == "--else" {
                is_wanted = !is_wanted;
            } else if line == "--end" {
                is_wanted = true;
            } else if is_wanted {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    fn shapes(self) -> [(&'static str, Option<Shape>); 7] {
        let fixed_too = self.has(Part::Starts);
        let execution = if fixed_too {
            &EXECUTION
        } else {
            &EXECUTION_CHANGING
        };
        let events = Shape::new(&[ITEM, EVENT.columns]).only(|name| self.sends(name));
        let of = |part, columns| self.has(part).then(|| Shape::new(&[ITEM, columns]));
        [
            (
                "{item}",
                Some(Shape::new(&[ITEM, EXPECTED, execution.columns])),
            ),
            ("{event}", Some(events)),
            ("{fence}", of(Part::Fences, FENCE)),
            ("{command}", of(Part::Issues, COMMAND.columns)),
            ("{patch}", of(Part::Patches, PATCH.columns)),
            ("{timer}", of(Part::Timers, TIMER)),
            ("{result}", of(Part::Results, RESULT.columns)),
        ]
    }

    /// Empty blocks for the parameters, in the order of the statement.
    pub(super) fn blocks(self) -> [Option<Block>; 7] {
        self.shapes()
            .map(|(_, shape)| shape.map(|shape| shape.block()))
    }
}

const ITEM: &[(&str, Kind)] = &[("item", Kind::Int)];

const EXPECTED: &[(&str, Kind)] = &[
    ("expected", Kind::Int),
    ("expected_chain", Kind::Bytes),
    ("starts", Kind::Bool),
    ("is_audit", Kind::Bool),
];

/// The statement about a lease, as columns.
pub(super) const FENCE: &[(&str, Kind)] = &[
    ("place", Kind::Int),
    ("command_id", Kind::Int),
    ("attempt", Kind::Int),
    ("token", Kind::Bytes),
    ("worker", Kind::Text),
    ("expired_by", Kind::Time),
];

const TIMER: &[(&str, Kind)] = &[
    ("execution_id", Kind::Int),
    ("timer_id", Kind::Text),
    ("fire_at", Kind::Time),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_is_complete() {
        for bits in 0..=u8::MAX {
            let sql = Parts(bits).statement();
            assert!(!sql.contains(['{', '}']), "{sql}");
            let is_plain = |line: &str| !line.starts_with("--") || line.starts_with("-- ");
            assert!(
                sql.lines().all(|line| is_plain(line) || line == "--"),
                "{sql}"
            );
        }
    }

    #[test]
    fn a_statement_has_no_more_than_it_needs() {
        let events_only = Parts(Part::Advances.bit()).statement();
        for part in ["started", "new_command", "touched", "new_timer", "kept"] {
            assert!(!events_only.contains(part), "{events_only}");
        }
        assert!(!events_only.contains("stack_trace"), "{events_only}");
        assert!(Parts::ALL.statement().contains("stack_trace"));
    }
}
