//! Tasks of generated playbooks: what they do, what they write, and their policies.

use noetl_types::Json;

use super::expressions::Site;
use super::{Body, Generator, Node};

/// Kinds that a scripted task may fail with.
const KINDS: [&str; 5] = [
    "timeout",
    "transform",
    "server_error",
    "not_found",
    "connection",
];

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of loops.
    Once,
    /// In a loop over items.
    Loop,
    /// In a loop over rows, where nothing may park.
    Frame,
}

impl Generator<'_> {
    /// The tool of a step.
    pub(super) fn tool(&mut self, step: usize, place: Place) -> Node {
        if self.plans[step].body == Body::Single {
            let label = self.plans[step].name.clone();
            return self.task(step, place, &[], &label);
        }
        let parks = self.parks() && place != Place::Frame;
        let count = self.rng.between(1, if parks { 4 } else { 3 });
        // A task without a label of its own is named after its place.
        let labels: Vec<String> = (0..count)
            .map(|at| {
                if at > 0 && self.rng.percent(20) {
                    format!("task_{at}")
                } else {
                    format!("t{at}")
                }
            })
            .collect();
        let tasks = labels.iter().enumerate().map(|(at, label)| {
            let task = self.task(step, place, &labels[..at], label);
            if label.starts_with("task_") {
                task
            } else if self.rng.percent(30) {
                Node::map([(label.as_str(), task)])
            } else {
                let mut named = Node::map([("name", Node::text(label.as_str()))]);
                if let Node::Map(entries) = task {
                    for (key, value) in entries {
                        named.push(&key, value);
                    }
                }
                named
            }
        });
        Node::List(tasks.collect())
    }

    fn task(&mut self, step: usize, place: Place, before: &[String], label: &str) -> Node {
        let parks = self.parks() && place != Place::Frame && self.rng.percent(35);
        let mut task = if parks {
            self.parking(step, place == Place::Loop)
        } else if self.rng.percent(55) {
            let mut task = Node::map([("kind", Node::text("noop"))]);
            if self.rng.percent(8) {
                task.push("message", Node::text("hello {{ w0 }}"));
            } else {
                task.push("result", self.data(step, place, before));
            }
            task
        } else {
            let command = self.command(step, place);
            Node::map([
                ("kind", Node::text("shell")),
                ("command", Node::text(command)),
            ])
        };
        if task.get("input").is_none() && self.rng.percent(15) {
            let number = self.number(step, Site::Task);
            task.push(
                "input",
                Node::map([("k", Node::text(format!("{{{{ {number} }}}}")))]),
            );
        }
        if self.config.writes && self.rng.percent(25) {
            let set = self.set(step, Site::Task);
            task.push("set", set);
        }
        if self.config.policies && self.rng.percent(35) {
            let rests = parks && self.rng.percent(60);
            let policy = self.policy(step, before, label, rests);
            task.push("spec", Node::map([("policy", policy)]));
        }
        if self.config.outputs && place != Place::Frame && self.rng.percent(10) {
            let output = self.output();
            task.push("output", output);
        }
        task
    }

    /// What becomes of data.
    pub(super) fn output(&mut self) -> Node {
        let mut output = Node::map([] as [(&str, Node); 0]);
        if self.rng.percent(40) {
            let path = self.word(&["$.n", "$.list[0]", "$.results[0].n", "$.none"]);
            let alias = self.word(&["picked", "n"]);
            let part = [("path", Node::text(path)), ("as", Node::text(alias))];
            output.push("select", Node::List(vec![Node::map(part)]));
        }
        if self.rng.percent(70) {
            let strategy = self.word(&["append", "replace", "merge", "concat"]);
            let mut spec = Node::map([
                ("enabled", Node::from(true)),
                ("strategy", Node::text(strategy)),
            ]);
            if self.rng.percent(30) {
                let path = self.word(&["$.n", "$.list"]);
                spec.push("merge_path", Node::text(path));
            }
            if self.rng.percent(40) {
                spec.push("manifest_as", Node::text("whole"));
            }
            if self.config.failures && self.rng.percent(15) {
                self.may_fail = true;
                spec.push("max_items", Node::from(2));
            }
            output.push("accumulate", spec);
        }
        output
    }

    /// What a noop gives.
    fn data(&mut self, step: usize, place: Place, before: &[String]) -> Node {
        let number = self.task_number(step, place, before);
        let number = Node::text(format!("{{{{ {number} }}}}"));
        match self.rng.below(8) {
            0 => number,
            1 => Node::List(vec![number, Node::from(self.rng.below(3))]),
            _ => {
                let mut data = Node::map([("n", number)]);
                if self.rng.percent(40) {
                    data.push("flag", Node::from(self.rng.percent(50)));
                }
                data
            }
        }
    }

    /// A number out of what only a task can see, if there is any.
    fn task_number(&mut self, step: usize, place: Place, before: &[String]) -> String {
        if place == Place::Frame && self.rng.percent(60) {
            let words = [
                "(x.n | default(0))",
                "(iter.x.n | default(0))",
                "(x | length)",
            ];
            return self.word(&words).to_owned();
        }
        if place == Place::Loop && self.rng.percent(60) {
            let words = ["x", "_index", "iter.x", "iter._total", "loop_index"];
            return self.word(&words).to_owned();
        }
        if self.rng.percent(40)
            && let Some(label) = self.rng.pick(before).cloned()
        {
            let words = [
                "_prev.n",
                "results.LABEL.n",
                "LABEL.n",
                "_prev",
                "_prev.slept_ms",
                "LABEL.payload.n",
            ];
            let path = self.word(&words).replace("LABEL", &label);
            return format!("({path} | default(0) | int) + 1");
        }
        if self.rng.percent(10) {
            let words = ["(input.k | default(0))", "(k | default(7))", "_attempt"];
            return self.word(&words).to_owned();
        }
        self.number(step, Site::Task)
    }

    /// What a scripted task does.
    fn command(&mut self, step: usize, place: Place) -> String {
        let number = self.rng.below(5);
        let kind = self.word(&KINDS);
        if self.config.template_errors && self.rng.percent(2) {
            return format!("ok {{{{ {} }}}}", Self::broken());
        }
        if !self.config.failures || self.rng.percent(70) {
            return format!("ok {{\"n\": {number}}}");
        }
        self.may_fail = true;
        if place == Place::Frame {
            return format!("{{{{ 'error {kind}' if x.n == {number} else 'ok 1' }}}}");
        }
        if place == Place::Loop {
            return format!("{{{{ 'error {kind}' if _index == {number} else 'ok ' ~ _index }}}}");
        }
        match self.rng.below(4) {
            0 => format!("error {kind}"),
            1 => format!("error {kind} {{\"n\": {number}}}"),
            2 => {
                let until = self.rng.between(2, 4);
                format!("flaky {until} {kind} {{\"n\": {number}}}")
            }
            _ => {
                let left = self.number(step, Site::Task);
                format!("{{{{ 'ok {number}' if {left} > 1 else 'error {kind}' }}}}")
            }
        }
    }

    /// The writes of a task, a rule, a step or an arc.
    pub(super) fn set(&mut self, step: usize, site: Site) -> Node {
        let mut set = Node::map([] as [(&str, Node); 0]);
        let read = if site == Site::Task { Site::Set } else { site };
        for _ in 0..self.rng.between(1, 2) {
            let variable = self.variable();
            let key = match self.rng.below(12) {
                0 => "iter.i".to_owned(),
                1 => "step.p".to_owned(),
                2 => format!("ctx.m.{variable}"),
                // Without a scope it is a variable of the pipeline in a task, of the execution in a step.
                3 => variable,
                _ => format!("ctx.{variable}"),
            };
            let number = self.number(step, read);
            let value = match self.rng.below(4) {
                0 => Node::from(self.rng.below(4)),
                1 => Node::text(format!("{{{{ {number} + 1 }}}}")),
                _ => Node::text(format!("{{{{ {number} }}}}")),
            };
            if set.get(&key).is_none() {
                set.push(&key, value);
            }
        }
        set
    }

    /// A policy whose jumps and retries end.
    fn policy(&mut self, step: usize, before: &[String], label: &str, rests: bool) -> Node {
        let mut rules: Vec<Node> = (0..self.rng.between(1, 2))
            .map(|_| self.rule(step, before, label, rests))
            .collect();
        if self.rng.percent(25) {
            let act = self.word(&["continue", "break", "continue"]);
            rules.push(match self.rng.below(3) {
                0 => Node::map([("else", Node::map([("do", Node::text(act))]))]),
                1 => Node::map([
                    ("else", Node::Value(Json::Null)),
                    ("then", Node::map([("do", Node::text(act))])),
                ]),
                _ => Node::map([(
                    "else",
                    Node::map([("then", Node::map([("do", Node::text(act))]))]),
                )]),
            });
        }
        let mut policy = Node::map([("rules", Node::List(rules))]);
        if self.rng.percent(30) {
            policy.push("on_unmatched", Node::text("continue"));
        }
        policy
    }

    fn rule(&mut self, step: usize, before: &[String], label: &str, rests: bool) -> Node {
        let failed = [
            "output.status == 'error'",
            "output.error.retryable",
            "error.kind == 'timeout'",
        ];
        let failed = Node::text(format!("{{{{ {} }}}}", self.word(&failed)));
        let (when, mut then) = match self.rng.below(7) {
            0..=2 => {
                let attempts = self.rng.between(1, 4);
                let mut then = Node::map([
                    ("do", Node::text("retry")),
                    ("attempts", Node::from(attempts)),
                ]);
                self.rest(&mut then, rests);
                (failed, then)
            }
            3 => return self.jump(before, label),
            4 => (
                self.condition(step, Site::Rule),
                Node::map([("do", Node::text("break"))]),
            ),
            5 => {
                let when = if self.config.open_choices {
                    self.condition(step, Site::Rule)
                } else {
                    failed
                };
                (when, Node::map([("do", Node::text("fail"))]))
            }
            _ => (
                self.condition(step, Site::Rule),
                Node::map([("do", Node::text("continue"))]),
            ),
        };
        if self.config.writes && self.rng.percent(30) {
            let set = self.set(step, Site::Rule);
            then.push("set", set);
        }
        Node::map([("when", when), ("then", then)])
    }

    /// A jump that counts itself.
    fn jump(&mut self, before: &[String], label: &str) -> Node {
        let to = self
            .rng
            .pick(before)
            .cloned()
            .unwrap_or_else(|| label.to_owned());
        let to = if !before.is_empty() && self.rng.percent(30) {
            "previous".to_owned()
        } else {
            to
        };
        let counter = format!("iter.j_{label}");
        let bound = self.rng.between(1, 2);
        let next = Node::text(format!("{{{{ ({counter} | default(0)) + 1 }}}}"));
        Node::map([
            (
                "when",
                Node::text(format!("{{{{ ({counter} | default(0)) < {bound} }}}}")),
            ),
            (
                "then",
                Node::map([
                    ("do", Node::text("jump")),
                    ("to", Node::text(to)),
                    ("set", Node::map([(counter, next)])),
                ]),
            ),
        ])
    }
}
