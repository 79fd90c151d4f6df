//! Suspending tasks in generated playbooks, and the external inputs that end them.
//!
//! Times are small and round, so that events often coincide. Signals are sent at odd times, so that
//! none coincides with the start of a wait.

use super::{DocumentNode, Generator};

/// Names and keys of signals.
const SIGNAL_NAMES: [&str; 3] = ["go", "stop", "more"];
const SIGNAL_KEYS: [&str; 2] = ["k0", "k1"];
/// Names of approvers.
const APPROVER_NAMES: [&str; 3] = ["ann", "bob", "cid"];

impl Generator<'_> {
    /// True if tasks may suspend.
    pub(super) fn allows_suspension(&self) -> bool {
        let config = self.config;
        config.sleeps || config.waits || config.approvals || config.children
    }

    /// Generates a task that suspends.
    pub(super) fn suspending_task(&mut self, step: usize, in_loop: bool) -> DocumentNode {
        let config = self.config;
        let kinds = [
            (config.sleeps, "sleep"),
            (config.waits, "wait"),
            (config.approvals, "approval"),
            (config.children, "playbook"),
        ];
        let kinds: Vec<&str> =
            kinds.iter().filter(|(enabled, _)| *enabled).map(|(_, kind)| *kind).collect();
        match self.pick_text(&kinds) {
            "sleep" => self.sleep_task(),
            "wait" => self.wait_task(),
            "approval" => self.approval_task(in_loop),
            _ => self.child_task(step, in_loop),
        }
    }

    /// Generates a duration of a few units.
    pub(super) fn duration_node(&mut self, max_units: usize) -> DocumentNode {
        let units = self.rng.number_between(1, max_units);
        DocumentNode::from_text(if self.rng.draw_percent(30) {
            format!("0.{units:02}s")
        } else {
            format!("{}ms", units * 10)
        })
    }

    fn sleep_task(&mut self) -> DocumentNode {
        let mut task = DocumentNode::from_entries([("kind", DocumentNode::from_text("sleep"))]);
        match self.rng.number_below(8) {
            0 => task.push("for", DocumentNode::from(0)),
            1 => task.push("for", DocumentNode::from_text("{{ (w0 + 1) * 10 }}ms")),
            2 => task.push("until", DocumentNode::from_text("2026-01-01T00:00:00.050Z")),
            3 => task.push("until", DocumentNode::from_text("2025-12-31T23:00:00+01:00")),
            4 if self.config.template_errors && self.rng.draw_percent(20) => {
                self.may_fail = true;
                let broken = format!("{{{{ {} }}}}", Self::broken_expression());
                task.push("for", DocumentNode::from_text(broken));
            }
            _ => {
                let length = self.duration_node(5);
                task.push("for", length);
            }
        }
        task
    }

    fn wait_task(&mut self) -> DocumentNode {
        self.may_fail = true;
        let mut task = DocumentNode::from_entries([("kind", DocumentNode::from_text("wait"))]);
        if self.rng.draw_percent(50) {
            let name = self.pick_text(&SIGNAL_NAMES);
            task.push("signal", DocumentNode::from_text(name));
        } else {
            let first = self.rng.number_below(SIGNAL_NAMES.len());
            let signals = (0..self.rng.number_between(1, 2)).map(|index| {
                let name = SIGNAL_NAMES[(first + index) % SIGNAL_NAMES.len()];
                let mut signal =
                    DocumentNode::from_entries([("name", DocumentNode::from_text(name))]);
                if self.rng.draw_percent(20) {
                    signal.push("key", DocumentNode::from_text("k{{ w1 }}"));
                }
                if self.rng.draw_percent(30) {
                    signal.push("as", DocumentNode::from_text(format!("as{index}")));
                }
                signal
            });
            let signals = signals.collect();
            task.push("signals", DocumentNode::List(signals));
            if self.rng.draw_percent(50) {
                let mode = self.pick_text(&["any", "all"]);
                task.push("mode", DocumentNode::from_text(mode));
            }
        }
        if self.rng.draw_percent(25) {
            let key = self.pick_text(&["k0", "k1", "k{{ w1 }}"]);
            task.push("key", DocumentNode::from_text(key));
        }
        if self.rng.draw_percent(40) {
            let lookback = self.duration_node(9);
            task.push("lookback", lookback);
        }
        let timeout = self.duration_node(9);
        task.push("timeout", timeout);
        task
    }

    fn approval_task(&mut self, in_loop: bool) -> DocumentNode {
        let mut task = DocumentNode::from_entries([("kind", DocumentNode::from_text("approval"))]);
        let decisions: Vec<String> = (0..self.rng.number_between(1, 3))
            .map(|_| {
                let actor = self.pick_text(&APPROVER_NAMES);
                let verb = self.pick_text(&["approves", "approves", "rejects"]);
                format!("{actor} {verb} {}", self.rng.number_below(6) * 10)
            })
            .collect();
        let decisions = decisions.join("; ");
        let message = if in_loop && self.rng.draw_percent(40) {
            format!("{{{{ 'ann rejects 10' if _index == 1 else '{decisions}' }}}}")
        } else {
            decisions
        };
        task.push("message", DocumentNode::from_text(message));
        if self.rng.draw_percent(30) {
            task.push("quorum", DocumentNode::from(2));
        }
        if self.rng.draw_percent(20) {
            let names = ["ann", "bob"].map(DocumentNode::from_text).to_vec();
            task.push("approvers", DocumentNode::List(names));
        }
        if self.config.failures {
            self.may_fail = true;
            if self.rng.draw_percent(50) {
                let action = self.pick_text(&["fail", "reject", "approve"]);
                task.push("on_timeout", DocumentNode::from_text(action));
            }
        } else {
            task.push("on_timeout", DocumentNode::from_text("reject"));
        }
        let timeout = self.duration_node(6);
        task.push("timeout", timeout);
        task
    }

    fn child_task(&mut self, step: usize, in_loop: bool) -> DocumentNode {
        let mut task = DocumentNode::from_entries([
            ("kind", DocumentNode::from_text("playbook")),
            ("path", DocumentNode::from_text("a/child")),
        ]);
        let number = self.rng.number_below(4);
        let after = self.rng.number_below(6) * 10;
        let completes = format!("completes {after} {{\"n\": {number}}}");
        let does = if !self.config.failures || self.rng.draw_percent(55) {
            match self.rng.number_below(4) {
                0 => format!("completes {after} {number}"),
                1 => format!("completes {after} {{\"n\": {number}, \"status\": \"fine\"}}"),
                _ => completes,
            }
        } else {
            self.may_fail = true;
            match self.rng.number_below(5) {
                0 => "hangs".to_owned(),
                1 => format!("cancelled {after}"),
                2 => format!("flaky 2 {after} {{\"n\": {number}}}"),
                3 if in_loop => {
                    format!("{{{{ 'fails {after}' if _index == 1 else 'completes {after} 2' }}}}")
                }
                _ => format!("fails {after}"),
            }
        };
        let mut input = DocumentNode::from_entries([("does", DocumentNode::from_text(does))]);
        if self.rng.draw_percent(30) {
            let number = self.number_expression(step, super::expressions::ExpressionSite::Task);
            input.push("k", DocumentNode::from_text(format!("{{{{ {number} }}}}")));
        }
        task.push("input", input);
        match self.rng.number_below(5) {
            // The child is started and not awaited.
            0 => return task,
            1 => task.push("return_step", DocumentNode::from_text("last")),
            2 => task.push("return_step", DocumentNode::from_text("nothing")),
            3 => {
                task.push("return_result", DocumentNode::from(true));
                task.push("result_step", DocumentNode::from_text("last"));
            }
            _ => task.push("return_result", DocumentNode::from(true)),
        }
        if self.config.failures {
            let timeout = self.duration_node(9);
            task.push("timeout", timeout);
            if self.rng.draw_percent(40) {
                let action = self.pick_text(&["abandon", "cancel"]);
                task.push("on_timeout", DocumentNode::from_text(action));
            }
        }
        task
    }

    /// Adds the delay of a retry, if it has one.
    pub(super) fn push_retry_delay(&mut self, then: &mut DocumentNode, has_delay: bool) {
        if !has_delay {
            then.push("backoff", DocumentNode::from_text("none"));
            return;
        }
        match self.rng.number_below(4) {
            0 => {}
            1 => then.push("backoff", DocumentNode::from_text("linear")),
            2 => then.push("backoff", DocumentNode::from_text("exponential")),
            _ => then.push("max_delay", DocumentNode::from_text("15ms")),
        }
        let delay = self.rng.number_between(1, 3);
        then.push("delay", DocumentNode::from_text(format!("{}ms", delay * 10)));
    }

    /// Generates a loop over claimed rows.
    pub(super) fn cursor_loop_node(&mut self, step: usize) -> DocumentNode {
        let frames: Vec<DocumentNode> = (0..self.rng.number_below(4))
            .map(|_| {
                let rows = (0..self.rng.number_between(0, 3)).map(|_| {
                    DocumentNode::from_entries([(
                        "n",
                        DocumentNode::from(self.rng.number_below(5)),
                    )])
                });
                DocumentNode::List(rows.collect())
            })
            .collect();
        let name = self.plans[step].name.clone();
        self.rows.push((name, DocumentNode::List(frames)));
        let mut spec = DocumentNode::from_entries([("mode", DocumentNode::from_text("cursor"))]);
        if self.rng.draw_percent(50) {
            spec.push("max_in_flight", DocumentNode::from(self.rng.number_between(1, 3)));
        }
        let mut frame = DocumentNode::from_entries([(
            "max_rows",
            DocumentNode::from(self.rng.number_between(1, 3)),
        )]);
        if self.rng.draw_percent(25) {
            frame.push("process", DocumentNode::from_text("frame"));
        }
        spec.push("frame", frame);
        let claim = DocumentNode::from_entries([(
            "claim",
            DocumentNode::from_text("SELECT {{ __frame_max_rows }}"),
        )]);
        DocumentNode::from_entries([
            ("cursor", claim),
            ("iterator", DocumentNode::from_text("x")),
            ("spec", spec),
        ])
    }

    /// Generates the cache settings of a step.
    pub(super) fn cache_node(&mut self) -> DocumentNode {
        let key = if self.config.template_errors && self.rng.draw_percent(4) {
            format!("{{{{ {} }}}}", Self::broken_expression())
        } else {
            self.pick_text(&["all", "of {{ w1 }}"]).to_owned()
        };
        let mut cache = DocumentNode::from_entries([("key", DocumentNode::from_text(key))]);
        if self.rng.draw_percent(40) {
            let ttl = self.duration_node(4);
            cache.push("ttl", ttl);
        }
        cache
    }

    /// Adds the slot that a step needs.
    pub(super) fn push_slot(&mut self, node: &mut DocumentNode) {
        let key = self.pick_text(&["slot0", "slot1", "slot{{ w1 }}"]);
        let mut slot = DocumentNode::from_entries([("key", DocumentNode::from_text(key))]);
        if self.rng.draw_percent(30) {
            slot.push("limit", DocumentNode::from(2));
        }
        node.push("concurrency", slot);
        if self.rng.draw_percent(30) {
            let priority = self.pick_text(&["-5", "5", "{{ w0 }}"]);
            node.push(
                "priority",
                match priority {
                    "{{ w0 }}" => DocumentNode::from_text(priority),
                    "5" => DocumentNode::from(5),
                    _ => DocumentNode::from(-5),
                },
            );
        }
    }

    /// Generates the external inputs.
    pub(super) fn external_inputs_node(&mut self) -> DocumentNode {
        let mut inputs = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        if self.config.waits {
            let signals = (0..self.rng.number_between(2, 8)).map(|index| {
                let name = self.pick_text(&SIGNAL_NAMES);
                let time = self.rng.number_below(12) * 10 + index + 1;
                let payload = DocumentNode::from_entries([(
                    "n",
                    DocumentNode::from(self.rng.number_below(4)),
                )]);
                let mut signal = DocumentNode::from_entries([
                    ("at", DocumentNode::from(time)),
                    ("name", DocumentNode::from_text(name)),
                    ("payload", payload),
                ]);
                if self.rng.draw_percent(50) {
                    let key = self.pick_text(&SIGNAL_KEYS);
                    signal.push("key", DocumentNode::from_text(key));
                }
                signal
            });
            let signals = signals.collect();
            inputs.push("signals", DocumentNode::List(signals));
        }
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            inputs.push("rows", DocumentNode::from_entries(rows));
        }
        if self.config.slots {
            let keys = ["slot0", "slot1", "run0", "run1"].map(|key| {
                let times = (0..self.rng.number_below(2))
                    .map(|_| DocumentNode::from(self.rng.number_below(6) * 10));
                (key, DocumentNode::List(times.collect()))
            });
            inputs.push("slots", DocumentNode::from_entries(keys));
        }
        inputs
    }
}
