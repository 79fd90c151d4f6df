//! Expressions of generated playbooks: numbers and conditions over the names that a location can
//! see.
//!
//! All arithmetic goes through `int`, so that an expression fails to render only if
//! [`Generator::broken_expression`] is used.

use super::{DocumentNode, Generator, StepBody};

/// Location of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpressionSite {
    /// A guard, admission rule or `loop.in`.
    Guard,
    /// Configuration of a task.
    Task,
    /// A policy rule.
    Rule,
    /// A `set` of a task or step.
    Set,
    /// An arc.
    Arc,
}

impl Generator<'_> {
    /// Generates an expression that yields a number.
    pub(super) fn number_expression(&mut self, step: usize, site: ExpressionSite) -> String {
        match self.rng.number_below(6) {
            0 if self.config.writes => {
                let variable = self.variable_name();
                let root = self.pick_text(&["", "ctx."]);
                format!("({root}{variable} | default(0) | int)")
            }
            1 => self
                .pick_text(&["workload.w0", "w1", "(workload.items | length)", "ctx.w0"])
                .to_owned(),
            2 | 3 => self.step_number(step).unwrap_or_else(|| "w0".to_owned()),
            4 if matches!(
                site,
                ExpressionSite::Set | ExpressionSite::Arc | ExpressionSite::Rule
            ) =>
            {
                let path = self.pick_text(&[
                    "output.n", "output.data.n", "outcome.result.n", "output.stats.total",
                ]);
                format!("({path} | default(0) | int)")
            }
            _ => self.rng.number_below(5).to_string(),
        }
    }

    /// Generates a number expression over the data of another step.
    fn step_number(&mut self, step: usize) -> Option<String> {
        let readable: Vec<usize> = if self.config.races {
            (0..self.plans.len()).filter(|other| *other != step).collect()
        } else {
            self.plans[step].ancestors.clone()
        };
        let other = *self.rng.pick_item(&readable)?;
        let plan = self.plans[other].clone();
        let path = match plan.body {
            StepBody::Single => {
                let paths = ["n", "data.n", "result.n", "stats.success", "results[0]"];
                let suspended = ["slept_ms", "payload.n", "data.approved"];
                let suspended = if self.allows_suspension() { &suspended[..] } else { &[] };
                self.pick_text(&[&paths[..], suspended].concat())
            }
            StepBody::Pipeline => {
                self.pick_text(&["n", "t0.n", "results.t0.n", "data", "t1.slept_ms"])
            }
        };
        let root = self.pick_text(&["", "ctx."]);
        Some(format!("({root}{}.{path} | default(0) | int)", plan.name))
    }

    /// Generates the name of a variable of the execution.
    pub(super) fn variable_name(&mut self) -> String {
        format!("v{}", self.rng.number_below(3))
    }

    /// Generates a condition, in one of its written forms.
    pub(super) fn condition_node(&mut self, step: usize, site: ExpressionSite) -> DocumentNode {
        if self.rng.draw_percent(4) {
            return DocumentNode::from(self.rng.draw_percent(70));
        }
        let mut test = self.test_expression(step, site);
        if self.rng.draw_percent(20) {
            let operator = self.pick_text(&["and", "or"]);
            let other = self.test_expression(step, site);
            test = format!("{test} {operator} {other}");
        }
        DocumentNode::from_text(if self.rng.draw_percent(50) {
            format!("{{{{ {test} }}}}")
        } else {
            test
        })
    }

    fn test_expression(&mut self, step: usize, site: ExpressionSite) -> String {
        if self.config.template_errors
            && self.rng.number_below(300) == 0
            && site != ExpressionSite::Rule
        {
            return Self::broken_expression().to_owned();
        }
        // Half of all conditions are likely to be true. Otherwise few runs would get far.
        if site != ExpressionSite::Rule && self.rng.draw_percent(50) {
            let left = self.number_expression(step, site);
            return format!(
                "{left} {} {}",
                self.pick_text(&[">=", "!="]),
                self.pick_text(&["0", "-1"])
            );
        }
        let draw = self.rng.number_below(10);
        if let Some(tests) = self.site_tests(site, draw) {
            return self.pick_text(tests).to_owned();
        }
        let left = self.number_expression(step, site);
        let right = self.rng.number_below(4);
        format!("{left} {} {right}", self.pick_text(&["<", "<=", ">", ">=", "==", "!="]))
    }

    /// Returns the tests of names that only this site can see, if the number drawn selects them.
    fn site_tests(&self, site: ExpressionSite, draw: usize) -> Option<&'static [&'static str]> {
        match site {
            ExpressionSite::Arc if draw < 3 => Some(&[
                "event.name == 'call.done'", "event.name == 'loop.done'",
                "event.name == 'step.skipped'", "event.name == 'call.error'",
                "event.name == 'call.error'",
            ]),
            ExpressionSite::Arc if draw == 9 && self.allows_suspension() => {
                Some(&["output.approved", "output.name == 'go'", "output.payload.n > 1"])
            }
            ExpressionSite::Arc if draw < 5 && self.config.failures => Some(&[
                "error", "not error", "error.kind == 'timeout'", "error.retryable",
                "output.status == 'error'",
            ]),
            ExpressionSite::Rule if draw < 6 => Some(&[
                "output.status == 'error'",
                "output.error.retryable",
                "output.status == 'ok'",
                "output.error.kind == 'timeout'",
                "error",
                "_attempt < 2",
            ]),
            ExpressionSite::Guard if draw < 2 && self.config.open_choices => Some(&[
                "event.name == 'call.done'", "event.name != 'step.skipped'",
                "(result.n | default(1)) > 1",
            ]),
            ExpressionSite::Guard
            | ExpressionSite::Task
            | ExpressionSite::Rule
            | ExpressionSite::Set
            | ExpressionSite::Arc => None,
        }
    }

    /// Returns an expression that cannot be rendered.
    pub(super) fn broken_expression() -> &'static str {
        "1 // 0 == 1"
    }
}
