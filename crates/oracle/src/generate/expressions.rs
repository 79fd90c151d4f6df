//! Expressions of generated playbooks: numbers and conditions over what a place can see.
//!
//! All arithmetic goes through `int`, so that nothing fails by accident: an expression fails to
//! render only where [`Generator::broken`] is asked for.

use super::{Body, Generator, Node};

/// Where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
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
    /// An expression that yields a number.
    pub(super) fn number(&mut self, step: usize, site: Site) -> String {
        match self.rng.below(6) {
            0 if self.config.writes => {
                let variable = self.variable();
                let read = self.word(&["", "ctx."]);
                format!("({read}{variable} | default(0) | int)")
            }
            1 => self
                .word(&["workload.w0", "w1", "(workload.items | length)", "ctx.w0"])
                .to_owned(),
            2 | 3 => self.step_number(step).unwrap_or_else(|| "w0".to_owned()),
            4 if matches!(site, Site::Set | Site::Arc | Site::Rule) => {
                let path = self.word(&[
                    "output.n",
                    "output.data.n",
                    "outcome.result.n",
                    "output.stats.total",
                ]);
                format!("({path} | default(0) | int)")
            }
            _ => self.rng.below(5).to_string(),
        }
    }

    /// A number out of the data of another step.
    fn step_number(&mut self, step: usize) -> Option<String> {
        let readable: Vec<usize> = if self.config.races {
            (0..self.plans.len())
                .filter(|other| *other != step)
                .collect()
        } else {
            self.plans[step].ancestors.clone()
        };
        let other = *self.rng.pick(&readable)?;
        let plan = self.plans[other].clone();
        let path = match plan.body {
            Body::Single => {
                let words = ["n", "data.n", "result.n", "stats.success", "results[0]"];
                let parked = ["slept_ms", "payload.n", "data.approved"];
                let parked = if self.parks() { &parked[..] } else { &[] };
                self.word(&[&words[..], parked].concat())
            }
            Body::Pipeline => self.word(&["n", "t0.n", "results.t0.n", "data", "t1.slept_ms"]),
        };
        let root = self.word(&["", "ctx."]);
        Some(format!("({root}{}.{path} | default(0) | int)", plan.name))
    }

    /// A variable of the execution.
    pub(super) fn variable(&mut self) -> String {
        format!("v{}", self.rng.below(3))
    }

    /// A condition, in one of the forms in which it may be written.
    pub(super) fn condition(&mut self, step: usize, site: Site) -> Node {
        if self.rng.percent(4) {
            return Node::from(self.rng.percent(70));
        }
        let mut test = self.test(step, site);
        if self.rng.percent(20) {
            let word = self.word(&["and", "or"]);
            let other = self.test(step, site);
            test = format!("{test} {word} {other}");
        }
        Node::text(if self.rng.percent(50) {
            format!("{{{{ {test} }}}}")
        } else {
            test
        })
    }

    fn test(&mut self, step: usize, site: Site) -> String {
        if self.config.template_errors && self.rng.below(300) == 0 && site != Site::Rule {
            return Self::broken().to_owned();
        }
        // Half of all conditions are likely to hold, or few runs would come far.
        if site != Site::Rule && self.rng.percent(50) {
            let left = self.number(step, site);
            return format!(
                "{left} {} {}",
                self.word(&[">=", "!="]),
                self.word(&["0", "-1"])
            );
        }
        let kind = self.rng.below(10);
        match site {
            Site::Arc if kind < 3 => {
                let names = [
                    "call.done",
                    "loop.done",
                    "step.skipped",
                    "call.error",
                    "call.error",
                ];
                format!("event.name == '{}'", self.word(&names))
            }
            Site::Arc if kind == 9 && self.parks() => {
                let tests = [
                    "output.approved",
                    "output.name == 'go'",
                    "output.payload.n > 1",
                ];
                self.word(&tests).to_owned()
            }
            Site::Arc if kind < 5 && self.config.failures => {
                let test = [
                    "error",
                    "not error",
                    "error.kind == 'timeout'",
                    "error.retryable",
                    "output.status == 'error'",
                ];
                self.word(&test).to_owned()
            }
            Site::Rule if kind < 6 => {
                let status = [
                    "output.status == 'error'",
                    "output.error.retryable",
                    "output.status == 'ok'",
                ];
                let more = ["output.error.kind == 'timeout'", "error", "_attempt < 2"];
                self.word(&[status, more].concat()).to_owned()
            }
            Site::Guard if kind < 2 && self.config.open_choices => {
                let tests = [
                    "event.name == 'call.done'",
                    "event.name != 'step.skipped'",
                    "(result.n | default(1)) > 1",
                ];
                self.word(&tests).to_owned()
            }
            Site::Guard | Site::Task | Site::Rule | Site::Set | Site::Arc => {
                let left = self.number(step, site);
                let right = self.rng.below(4);
                format!(
                    "{left} {} {right}",
                    self.word(&["<", "<=", ">", ">=", "==", "!="])
                )
            }
        }
    }

    /// An expression that cannot be rendered.
    pub(super) fn broken() -> &'static str {
        "1 // 0 == 1"
    }
}
