//! What waits in generated playbooks, and the world that ends it.
//!
//! Times are small and round, so that things often happen at the same moment; signals come at odd
//! moments of their own, so that it is never a question whether one came before a wait.

use super::{Generator, Node};

/// What signals are called, and what they are about.
const NAMES: [&str; 3] = ["go", "stop", "more"];
const KEYS: [&str; 2] = ["k0", "k1"];
/// Who decides.
const ACTORS: [&str; 3] = ["ann", "bob", "cid"];

impl Generator<'_> {
    /// Whether tasks may park.
    pub(super) fn parks(&self) -> bool {
        let config = self.config;
        config.sleeps || config.waits || config.approvals || config.children
    }

    /// A task that parks.
    pub(super) fn parking(&mut self, step: usize, in_loop: bool) -> Node {
        let config = self.config;
        let kinds = [
            (config.sleeps, "sleep"),
            (config.waits, "wait"),
            (config.approvals, "approval"),
            (config.children, "playbook"),
        ];
        let kinds: Vec<&str> = kinds
            .iter()
            .filter(|(may, _)| *may)
            .map(|(_, kind)| *kind)
            .collect();
        match self.word(&kinds) {
            "sleep" => self.sleep(),
            "wait" => self.wait(),
            "approval" => self.approval(in_loop),
            _ => self.child(step, in_loop),
        }
    }

    /// A duration of a few units.
    pub(super) fn duration(&mut self, most: usize) -> Node {
        let units = self.rng.between(1, most);
        Node::text(if self.rng.percent(30) {
            format!("0.{units:02}s")
        } else {
            format!("{}ms", units * 10)
        })
    }

    fn sleep(&mut self) -> Node {
        let mut task = Node::map([("kind", Node::text("sleep"))]);
        match self.rng.below(8) {
            0 => task.push("for", Node::from(0)),
            1 => task.push("for", Node::text("{{ (w0 + 1) * 10 }}ms")),
            2 => task.push("until", Node::text("2026-01-01T00:00:00.050Z")),
            3 => task.push("until", Node::text("2025-12-31T23:00:00+01:00")),
            4 if self.config.template_errors && self.rng.percent(20) => {
                self.may_fail = true;
                let broken = format!("{{{{ {} }}}}", Self::broken());
                task.push("for", Node::text(broken));
            }
            _ => {
                let length = self.duration(5);
                task.push("for", length);
            }
        }
        task
    }

    fn wait(&mut self) -> Node {
        self.may_fail = true;
        let mut task = Node::map([("kind", Node::text("wait"))]);
        if self.rng.percent(50) {
            let name = self.word(&NAMES);
            task.push("signal", Node::text(name));
        } else {
            let first = self.rng.below(NAMES.len());
            let signals = (0..self.rng.between(1, 2)).map(|at| {
                let name = NAMES[(first + at) % NAMES.len()];
                let mut signal = Node::map([("name", Node::text(name))]);
                if self.rng.percent(20) {
                    signal.push("key", Node::text("k{{ w1 }}"));
                }
                if self.rng.percent(30) {
                    signal.push("as", Node::text(format!("as{at}")));
                }
                signal
            });
            let signals = signals.collect();
            task.push("signals", Node::List(signals));
            if self.rng.percent(50) {
                let mode = self.word(&["any", "all"]);
                task.push("mode", Node::text(mode));
            }
        }
        if self.rng.percent(25) {
            let key = self.word(&["k0", "k1", "k{{ w1 }}"]);
            task.push("key", Node::text(key));
        }
        if self.rng.percent(40) {
            let lookback = self.duration(9);
            task.push("lookback", lookback);
        }
        let timeout = self.duration(9);
        task.push("timeout", timeout);
        task
    }

    fn approval(&mut self, in_loop: bool) -> Node {
        let mut task = Node::map([("kind", Node::text("approval"))]);
        let said: Vec<String> = (0..self.rng.between(1, 3))
            .map(|_| {
                let actor = self.word(&ACTORS);
                let verb = self.word(&["approves", "approves", "rejects"]);
                format!("{actor} {verb} {}", self.rng.below(6) * 10)
            })
            .collect();
        let said = said.join("; ");
        let message = if in_loop && self.rng.percent(40) {
            format!("{{{{ 'ann rejects 10' if _index == 1 else '{said}' }}}}")
        } else {
            said
        };
        task.push("message", Node::text(message));
        if self.rng.percent(30) {
            task.push("quorum", Node::from(2));
        }
        if self.rng.percent(20) {
            let names = ["ann", "bob"].map(Node::text).to_vec();
            task.push("approvers", Node::List(names));
        }
        if self.config.failures {
            self.may_fail = true;
            if self.rng.percent(50) {
                let word = self.word(&["fail", "reject", "approve"]);
                task.push("on_timeout", Node::text(word));
            }
        } else {
            task.push("on_timeout", Node::text("reject"));
        }
        let timeout = self.duration(6);
        task.push("timeout", timeout);
        task
    }

    fn child(&mut self, step: usize, in_loop: bool) -> Node {
        let mut task = Node::map([
            ("kind", Node::text("playbook")),
            ("path", Node::text("a/child")),
        ]);
        let number = self.rng.below(4);
        let after = self.rng.below(6) * 10;
        let good = format!("completes {after} {{\"n\": {number}}}");
        let does = if !self.config.failures || self.rng.percent(55) {
            match self.rng.below(4) {
                0 => format!("completes {after} {number}"),
                1 => format!("completes {after} {{\"n\": {number}, \"status\": \"fine\"}}"),
                _ => good,
            }
        } else {
            self.may_fail = true;
            match self.rng.below(5) {
                0 => "hangs".to_owned(),
                1 => format!("cancelled {after}"),
                2 => format!("flaky 2 {after} {{\"n\": {number}}}"),
                3 if in_loop => {
                    format!("{{{{ 'fails {after}' if _index == 1 else 'completes {after} 2' }}}}")
                }
                _ => format!("fails {after}"),
            }
        };
        let mut input = Node::map([("does", Node::text(does))]);
        if self.rng.percent(30) {
            let number = self.number(step, super::expressions::Site::Task);
            input.push("k", Node::text(format!("{{{{ {number} }}}}")));
        }
        task.push("input", input);
        match self.rng.below(5) {
            // The child is started and left alone.
            0 => return task,
            1 => task.push("return_step", Node::text("last")),
            2 => task.push("return_step", Node::text("nothing")),
            3 => {
                task.push("return_result", Node::from(true));
                task.push("result_step", Node::text("last"));
            }
            _ => task.push("return_result", Node::from(true)),
        }
        if self.config.failures {
            let timeout = self.duration(9);
            task.push("timeout", timeout);
            if self.rng.percent(40) {
                let word = self.word(&["abandon", "cancel"]);
                task.push("on_timeout", Node::text(word));
            }
        }
        task
    }

    /// How long a retry rests, if it does.
    pub(super) fn rest(&mut self, then: &mut Node, rests: bool) {
        if !rests {
            then.push("backoff", Node::text("none"));
            return;
        }
        match self.rng.below(4) {
            0 => {}
            1 => then.push("backoff", Node::text("linear")),
            2 => then.push("backoff", Node::text("exponential")),
            _ => then.push("max_delay", Node::text("15ms")),
        }
        let delay = self.rng.between(1, 3);
        then.push("delay", Node::text(format!("{}ms", delay * 10)));
    }

    /// A loop over claimed rows.
    pub(super) fn cursor(&mut self, step: usize) -> Node {
        let frames: Vec<Node> = (0..self.rng.below(4))
            .map(|_| {
                let rows = (0..self.rng.between(0, 3))
                    .map(|_| Node::map([("n", Node::from(self.rng.below(5)))]));
                Node::List(rows.collect())
            })
            .collect();
        let name = self.plans[step].name.clone();
        self.rows.push((name, Node::List(frames)));
        let mut spec = Node::map([("mode", Node::text("cursor"))]);
        if self.rng.percent(50) {
            spec.push("max_in_flight", Node::from(self.rng.between(1, 3)));
        }
        let mut frame = Node::map([("max_rows", Node::from(self.rng.between(1, 3)))]);
        if self.rng.percent(25) {
            frame.push("process", Node::text("frame"));
        }
        spec.push("frame", frame);
        let claim = Node::map([("claim", Node::text("SELECT {{ __frame_max_rows }}"))]);
        Node::map([
            ("cursor", claim),
            ("iterator", Node::text("x")),
            ("spec", spec),
        ])
    }

    /// Where a step leaves its result.
    pub(super) fn cache(&mut self) -> Node {
        let key = if self.config.template_errors && self.rng.percent(4) {
            format!("{{{{ {} }}}}", Self::broken())
        } else {
            self.word(&["all", "of {{ w1 }}"]).to_owned()
        };
        let mut cache = Node::map([("key", Node::text(key))]);
        if self.rng.percent(40) {
            let ttl = self.duration(4);
            cache.push("ttl", ttl);
        }
        cache
    }

    /// The slot that a step needs.
    pub(super) fn slot(&mut self, node: &mut Node) {
        let key = self.word(&["slot0", "slot1", "slot{{ w1 }}"]);
        let mut slot = Node::map([("key", Node::text(key))]);
        if self.rng.percent(30) {
            slot.push("limit", Node::from(2));
        }
        node.push("concurrency", slot);
        if self.rng.percent(30) {
            let priority = self.word(&["-5", "5", "{{ w0 }}"]);
            node.push(
                "priority",
                match priority {
                    "{{ w0 }}" => Node::text(priority),
                    "5" => Node::from(5),
                    _ => Node::from(-5),
                },
            );
        }
    }

    /// What comes from outside.
    pub(super) fn world(&mut self) -> Node {
        let mut world = Node::map([] as [(&str, Node); 0]);
        if self.config.waits {
            let signals = (0..self.rng.between(2, 8)).map(|at| {
                let name = self.word(&NAMES);
                let time = self.rng.below(12) * 10 + at + 1;
                let payload = Node::map([("n", Node::from(self.rng.below(4)))]);
                let mut signal = Node::map([
                    ("at", Node::from(time)),
                    ("name", Node::text(name)),
                    ("payload", payload),
                ]);
                if self.rng.percent(50) {
                    let key = self.word(&KEYS);
                    signal.push("key", Node::text(key));
                }
                signal
            });
            let signals = signals.collect();
            world.push("signals", Node::List(signals));
        }
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            world.push("rows", Node::map(rows));
        }
        if self.config.slots {
            let keys = ["slot0", "slot1", "run0", "run1"].map(|key| {
                let times = (0..self.rng.below(2)).map(|_| Node::from(self.rng.below(6) * 10));
                (key, Node::List(times.collect()))
            });
            world.push("slots", Node::map(keys));
        }
        world
    }
}
