//! Tasks of generated playbooks: their kinds, writes and policies.

use noetl_types::Json;

use super::expressions::ExpressionSite;
use super::{DocumentNode, Generator, StepBody};

/// Error kinds of scripted tasks.
const SCRIPTED_ERROR_KINDS: [&str; 5] =
    ["timeout", "transform", "server_error", "not_found", "connection"];

/// Location of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskLocation {
    /// Outside of loops.
    Once,
    /// In a loop over items.
    Loop,
    /// In a cursor loop, where no task may suspend.
    Frame,
}

impl Generator<'_> {
    /// Writes the tool of a step.
    pub(super) fn tool_node(&mut self, step: usize, location: TaskLocation) -> DocumentNode {
        if self.plans[step].body == StepBody::Single {
            let label = self.plans[step].name.clone();
            return self.task_node(step, location, &[], &label);
        }
        let may_suspend = self.allows_suspension() && location != TaskLocation::Frame;
        let count = self.rng.number_between(1, if may_suspend { 4 } else { 3 });
        // A task without a label is named after its index.
        let labels: Vec<String> = (0..count)
            .map(|index| {
                if index > 0 && self.rng.draw_percent(20) {
                    format!("task_{index}")
                } else {
                    format!("t{index}")
                }
            })
            .collect();
        let tasks = labels.iter().enumerate().map(|(index, label)| {
            let task = self.task_node(step, location, &labels[..index], label);
            if label.starts_with("task_") {
                task
            } else if self.rng.draw_percent(30) {
                DocumentNode::from_entries([(label.as_str(), task)])
            } else {
                let mut named =
                    DocumentNode::from_entries([("name", DocumentNode::from_text(label.as_str()))]);
                if let DocumentNode::Map(entries) = task {
                    for (key, value) in entries {
                        named.push(&key, value);
                    }
                }
                named
            }
        });
        DocumentNode::List(tasks.collect())
    }

    fn task_node(
        &mut self,
        step: usize,
        location: TaskLocation,
        earlier_labels: &[String],
        label: &str,
    ) -> DocumentNode {
        let suspends = self.allows_suspension()
            && location != TaskLocation::Frame
            && self.rng.draw_percent(35);
        let mut task = if suspends {
            self.suspending_task(step, location == TaskLocation::Loop)
        } else if self.rng.draw_percent(55) {
            let mut task = DocumentNode::from_entries([("kind", DocumentNode::from_text("noop"))]);
            if self.rng.draw_percent(8) {
                task.push("message", DocumentNode::from_text("hello {{ w0 }}"));
            } else {
                task.push("result", self.noop_result_node(step, location, earlier_labels));
            }
            task
        } else {
            let command = self.scripted_command(step, location);
            DocumentNode::from_entries([
                ("kind", DocumentNode::from_text("shell")),
                ("command", DocumentNode::from_text(command)),
            ])
        };
        if task.get("input").is_none() && self.rng.draw_percent(15) {
            let number = self.number_expression(step, ExpressionSite::Task);
            task.push(
                "input",
                DocumentNode::from_entries([(
                    "k",
                    DocumentNode::from_text(format!("{{{{ {number} }}}}")),
                )]),
            );
        }
        if self.config.writes && self.rng.draw_percent(25) {
            let set = self.set_node(step, ExpressionSite::Task);
            task.push("set", set);
        }
        if self.config.policies && self.rng.draw_percent(35) {
            let has_delay = suspends && self.rng.draw_percent(60);
            let policy = self.policy_node(step, earlier_labels, label, has_delay);
            task.push("spec", DocumentNode::from_entries([("policy", policy)]));
        }
        if self.config.outputs && location != TaskLocation::Frame && self.rng.draw_percent(10) {
            let output = self.output_node();
            task.push("output", output);
        }
        task
    }

    /// Writes an `output`.
    pub(super) fn output_node(&mut self) -> DocumentNode {
        let mut output = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        if self.rng.draw_percent(40) {
            let path = self.pick_text(&["$.n", "$.list[0]", "$.results[0].n", "$.none"]);
            let alias = self.pick_text(&["picked", "n"]);
            let part =
                [("path", DocumentNode::from_text(path)), ("as", DocumentNode::from_text(alias))];
            output.push("select", DocumentNode::List(vec![DocumentNode::from_entries(part)]));
        }
        if self.rng.draw_percent(70) {
            let strategy = self.pick_text(&["append", "replace", "merge", "concat"]);
            let mut spec = DocumentNode::from_entries([
                ("enabled", DocumentNode::from(true)),
                ("strategy", DocumentNode::from_text(strategy)),
            ]);
            if self.rng.draw_percent(30) {
                let path = self.pick_text(&["$.n", "$.list"]);
                spec.push("merge_path", DocumentNode::from_text(path));
            }
            if self.rng.draw_percent(40) {
                spec.push("manifest_as", DocumentNode::from_text("whole"));
            }
            if self.config.failures && self.rng.draw_percent(15) {
                self.may_fail = true;
                spec.push("max_items", DocumentNode::from(2));
            }
            output.push("accumulate", spec);
        }
        output
    }

    /// Writes the result of a noop.
    fn noop_result_node(
        &mut self,
        step: usize,
        location: TaskLocation,
        earlier_labels: &[String],
    ) -> DocumentNode {
        let number = self.task_number_expression(step, location, earlier_labels);
        let number = DocumentNode::from_text(format!("{{{{ {number} }}}}"));
        match self.rng.number_below(8) {
            0 => number,
            1 => DocumentNode::List(vec![number, DocumentNode::from(self.rng.number_below(3))]),
            _ => {
                let mut data = DocumentNode::from_entries([("n", number)]);
                if self.rng.draw_percent(40) {
                    data.push("flag", DocumentNode::from(self.rng.draw_percent(50)));
                }
                data
            }
        }
    }

    /// Generates a number expression over names that only a task can see.
    fn task_number_expression(
        &mut self,
        step: usize,
        location: TaskLocation,
        earlier_labels: &[String],
    ) -> String {
        if location == TaskLocation::Frame && self.rng.draw_percent(60) {
            let expressions = ["(x.n | default(0))", "(iter.x.n | default(0))", "(x | length)"];
            return self.pick_text(&expressions).to_owned();
        }
        if location == TaskLocation::Loop && self.rng.draw_percent(60) {
            let expressions = ["x", "_index", "iter.x", "iter._total", "loop_index"];
            return self.pick_text(&expressions).to_owned();
        }
        if self.rng.draw_percent(40)
            && let Some(label) = self.rng.pick_item(earlier_labels).cloned()
        {
            let expressions = [
                "_prev.n", "results.LABEL.n", "LABEL.n", "_prev", "_prev.slept_ms",
                "LABEL.payload.n",
            ];
            let path = self.pick_text(&expressions).replace("LABEL", &label);
            return format!("({path} | default(0) | int) + 1");
        }
        if self.rng.draw_percent(10) {
            let expressions = ["(input.k | default(0))", "(k | default(7))", "_attempt"];
            return self.pick_text(&expressions).to_owned();
        }
        self.number_expression(step, ExpressionSite::Task)
    }

    /// Writes the command of a scripted task.
    fn scripted_command(&mut self, step: usize, location: TaskLocation) -> String {
        let number = self.rng.number_below(5);
        let kind = self.pick_text(&SCRIPTED_ERROR_KINDS);
        if self.config.template_errors && self.rng.draw_percent(2) {
            return format!("ok {{{{ {} }}}}", Self::broken_expression());
        }
        if !self.config.failures || self.rng.draw_percent(70) {
            return format!("ok {{\"n\": {number}}}");
        }
        self.may_fail = true;
        if location == TaskLocation::Frame {
            return format!("{{{{ 'error {kind}' if x.n == {number} else 'ok 1' }}}}");
        }
        if location == TaskLocation::Loop {
            return format!("{{{{ 'error {kind}' if _index == {number} else 'ok ' ~ _index }}}}");
        }
        match self.rng.number_below(4) {
            0 => format!("error {kind}"),
            1 => format!("error {kind} {{\"n\": {number}}}"),
            2 => {
                let first_success = self.rng.number_between(2, 4);
                format!("flaky {first_success} {kind} {{\"n\": {number}}}")
            }
            _ => {
                let left = self.number_expression(step, ExpressionSite::Task);
                format!("{{{{ 'ok {number}' if {left} > 1 else 'error {kind}' }}}}")
            }
        }
    }

    /// Writes a `set` of a task, a rule, a step or an arc.
    pub(super) fn set_node(&mut self, step: usize, site: ExpressionSite) -> DocumentNode {
        let mut set = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        let read_site = if site == ExpressionSite::Task { ExpressionSite::Set } else { site };
        for _ in 0..self.rng.number_between(1, 2) {
            let variable = self.variable_name();
            let key = match self.rng.number_below(12) {
                0 => "iter.i".to_owned(),
                1 => "step.p".to_owned(),
                2 => format!("ctx.m.{variable}"),
                // A name without a scope is a variable of the pipeline in a task, and of the
                // execution in a step.
                3 => variable,
                _ => format!("ctx.{variable}"),
            };
            let number = self.number_expression(step, read_site);
            let value = match self.rng.number_below(4) {
                0 => DocumentNode::from(self.rng.number_below(4)),
                1 => DocumentNode::from_text(format!("{{{{ {number} + 1 }}}}")),
                _ => DocumentNode::from_text(format!("{{{{ {number} }}}}")),
            };
            if set.get(&key).is_none() {
                set.push(&key, value);
            }
        }
        set
    }

    /// Writes a policy with bounded jumps and retries.
    fn policy_node(
        &mut self,
        step: usize,
        earlier_labels: &[String],
        label: &str,
        has_delay: bool,
    ) -> DocumentNode {
        let mut rules: Vec<DocumentNode> = (0..self.rng.number_between(1, 2))
            .map(|_| self.rule_node(step, earlier_labels, label, has_delay))
            .collect();
        if self.rng.draw_percent(25) {
            let action = self.pick_text(&["continue", "break", "continue"]);
            rules.push(match self.rng.number_below(3) {
                0 => DocumentNode::from_entries([(
                    "else",
                    DocumentNode::from_entries([("do", DocumentNode::from_text(action))]),
                )]),
                1 => DocumentNode::from_entries([
                    ("else", DocumentNode::Value(Json::Null)),
                    ("then", DocumentNode::from_entries([("do", DocumentNode::from_text(action))])),
                ]),
                _ => DocumentNode::from_entries([(
                    "else",
                    DocumentNode::from_entries([(
                        "then",
                        DocumentNode::from_entries([("do", DocumentNode::from_text(action))]),
                    )]),
                )]),
            });
        }
        let mut policy = DocumentNode::from_entries([("rules", DocumentNode::List(rules))]);
        if self.rng.draw_percent(30) {
            policy.push("on_unmatched", DocumentNode::from_text("continue"));
        }
        policy
    }

    fn rule_node(
        &mut self,
        step: usize,
        earlier_labels: &[String],
        label: &str,
        has_delay: bool,
    ) -> DocumentNode {
        let failed =
            ["output.status == 'error'", "output.error.retryable", "error.kind == 'timeout'"];
        let failed = DocumentNode::from_text(format!("{{{{ {} }}}}", self.pick_text(&failed)));
        let (when, mut then) = match self.rng.number_below(7) {
            0..=2 => {
                let attempts = self.rng.number_between(1, 4);
                let mut then = DocumentNode::from_entries([
                    ("do", DocumentNode::from_text("retry")),
                    ("attempts", DocumentNode::from(attempts)),
                ]);
                self.push_retry_delay(&mut then, has_delay);
                (failed, then)
            }
            3 => return self.jump_rule_node(earlier_labels, label),
            4 => (
                self.condition_node(step, ExpressionSite::Rule),
                DocumentNode::from_entries([("do", DocumentNode::from_text("break"))]),
            ),
            5 => {
                let when = if self.config.open_choices {
                    self.condition_node(step, ExpressionSite::Rule)
                } else {
                    failed
                };
                (when, DocumentNode::from_entries([("do", DocumentNode::from_text("fail"))]))
            }
            _ => (
                self.condition_node(step, ExpressionSite::Rule),
                DocumentNode::from_entries([("do", DocumentNode::from_text("continue"))]),
            ),
        };
        if self.config.writes && self.rng.draw_percent(30) {
            let set = self.set_node(step, ExpressionSite::Rule);
            then.push("set", set);
        }
        DocumentNode::from_entries([("when", when), ("then", then)])
    }

    /// Writes a jump that counts itself.
    fn jump_rule_node(&mut self, earlier_labels: &[String], label: &str) -> DocumentNode {
        let to = self.rng.pick_item(earlier_labels).cloned().unwrap_or_else(|| label.to_owned());
        let to = if !earlier_labels.is_empty() && self.rng.draw_percent(30) {
            "previous".to_owned()
        } else {
            to
        };
        let counter = format!("iter.j_{label}");
        let bound = self.rng.number_between(1, 2);
        let next = DocumentNode::from_text(format!("{{{{ ({counter} | default(0)) + 1 }}}}"));
        DocumentNode::from_entries([
            (
                "when",
                DocumentNode::from_text(format!("{{{{ ({counter} | default(0)) < {bound} }}}}")),
            ),
            (
                "then",
                DocumentNode::from_entries([
                    ("do", DocumentNode::from_text("jump")),
                    ("to", DocumentNode::from_text(to)),
                    ("set", DocumentNode::from_entries([(counter, next)])),
                ]),
            ),
        ])
    }
}
