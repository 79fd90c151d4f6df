//! Steps of generated playbooks: guards, loops, writes and arcs around a tool.

use super::expressions::Site;
use super::tasks::Place;
use super::{ArcPlan, Generator, Node};

impl Generator<'_> {
    /// A step, as planned.
    pub(super) fn step(&mut self, step: usize) -> Node {
        self.may_fail = false;
        let mut node = Node::map([("step", Node::text(self.plans[step].name.clone()))]);
        if self.config.guards && self.rng.percent(15) {
            let guard = self.condition(step, Site::Guard);
            node.push("when", guard);
        }
        let parallel = self.config.parallel_loops && self.rng.percent(50);
        let in_loop = (parallel || self.config.loops) && self.rng.percent(30);
        let cursor = !in_loop && self.config.cursors && self.rng.percent(12);
        let spec = self.step_spec(step, in_loop || cursor, cursor);
        if !matches!(&spec, Node::Map(entries) if entries.is_empty()) {
            node.push("spec", spec);
        }
        if self.config.slots && self.rng.percent(15) {
            self.slot(&mut node);
        }
        if self.rng.percent(12) {
            let number = self.number(step, Site::Task);
            node.push(
                "input",
                Node::map([("k", Node::text(format!("{{{{ {number} }}}}")))]),
            );
        }
        if in_loop {
            let looping = self.looping(step, parallel);
            node.push("loop", looping);
        }
        if cursor {
            let looping = self.cursor(step);
            node.push("loop", looping);
        }
        let place = if cursor {
            Place::Frame
        } else if in_loop {
            Place::Loop
        } else {
            Place::Once
        };
        let tool = self.tool(step, place);
        node.push("tool", tool);
        if self.config.outputs && !cursor && self.rng.percent(if in_loop { 25 } else { 5 }) {
            let output = self.output();
            node.push("output", output);
        }
        if self.config.writes && self.rng.percent(35) {
            let set = self.step_set(step);
            node.push("set", set);
        }
        if !self.plans[step].arcs.is_empty() {
            let next = self.next(step);
            node.push("next", next);
        }
        node
    }

    /// A step that runs when the run ends.
    pub(super) fn final_step(&mut self) -> Node {
        let fails = self.config.failures && self.rng.percent(15);
        let command = if fails {
            "error transform"
        } else {
            "ok {\"n\": 9}"
        };
        let status = Node::map([("ctx.ended", Node::text("{{ event.name }}"))]);
        let mut tool = Node::map([
            ("kind", Node::text("shell")),
            ("command", Node::text(command)),
        ]);
        if self.config.sleeps && self.rng.percent(25) {
            let mut sleep = Node::map([("kind", Node::text("sleep"))]);
            sleep.push("for", self.duration(3));
            let label = |name: &str, task| Node::map([(name, task)]);
            tool = Node::List(vec![label("rest", sleep), label("work", tool)]);
        }
        let mut node = Node::map([("step", Node::text("cleanup")), ("tool", tool)]);
        if self.config.guards && self.rng.percent(20) {
            let status = self.word(&["COMPLETED", "FAILED"]);
            node.push(
                "when",
                Node::text(format!("{{{{ event.payload.status == '{status}' }}}}")),
            );
        }
        if self.config.writes {
            node.push("set", status);
        }
        node
    }

    fn step_spec(&mut self, step: usize, in_loop: bool, in_frames: bool) -> Node {
        let mut spec = Node::map([] as [(&str, Node); 0]);
        let policy = self.step_policy(step, in_loop);
        if !matches!(&policy, Node::Map(entries) if entries.is_empty()) {
            spec.push("policy", policy);
        }
        if self.config.timeouts && self.rng.percent(15) {
            self.may_fail = true;
            let timeout = self.duration(4);
            spec.push("timeout", timeout);
        }
        if self.config.caches && !in_frames && self.rng.percent(15) {
            let cache = self.cache();
            spec.push("cache", cache);
        }
        spec
    }

    fn step_policy(&mut self, step: usize, in_loop: bool) -> Node {
        let mut policy = Node::map([] as [(&str, Node); 0]);
        if self.config.admission && self.rng.percent(8) {
            let allow = |allow: bool| Node::map([("allow", Node::from(allow))]);
            let when = self.condition(step, Site::Guard);
            let mut rules = vec![Node::map([
                ("when", when),
                ("then", allow(self.rng.percent(50))),
            ])];
            if self.rng.percent(40) {
                rules.push(Node::map([(
                    "else",
                    Node::map([("then", allow(self.rng.percent(50)))]),
                )]));
            }
            policy.push("admit", Node::map([("rules", Node::List(rules))]));
        }
        if in_loop && self.config.best_effort && self.rng.percent(35) {
            policy.push("failure", Node::map([("mode", Node::text("best_effort"))]));
        }
        policy
    }

    fn looping(&mut self, step: usize, parallel: bool) -> Node {
        let items = match self.rng.below(9) {
            0 | 1 => Node::text("{{ workload.items }}"),
            2 => Node::text("{{ words }}"),
            3 => Node::from(self.rng.below(4)),
            4 => Node::text(format!("{{{{ {} }}}}", self.number(step, Site::Guard))),
            5 => Node::text("{{ {'b': 2, 'a': 1} }}"),
            6 if self.config.failures && self.rng.percent(40) => Node::text("{{ nothing_at_all }}"),
            6 if self.config.template_errors && self.rng.percent(30) => {
                Node::text(format!("{{{{ {} }}}}", Self::broken()))
            }
            _ => Node::List((0..self.rng.below(4)).map(Node::from).collect()),
        };
        let mut looping = Node::map([("in", items), ("iterator", Node::text("x"))]);
        if parallel {
            let mut spec = Node::map([("mode", Node::text("parallel"))]);
            match self.rng.below(4) {
                0 => {}
                1 => spec.push("max_in_flight", Node::text("{{ w0 + 1 }}")),
                _ => spec.push("max_in_flight", Node::from(self.rng.between(1, 3))),
            }
            looping.push("spec", spec);
        }
        looping
    }

    fn step_set(&mut self, step: usize) -> Node {
        if self.config.template_errors && self.rng.percent(2) {
            return Node::map([(
                "ctx.v0",
                Node::text(format!("{{{{ {} }}}}", Self::broken())),
            )]);
        }
        let mut set = self.set(step, Site::Set);
        if self.config.open_choices && self.rng.percent(10) {
            let name = &self.plans[step].name;
            set.push(
                "ctx.own",
                Node::text(format!("{{{{ {name}.n | default(0) }}}}")),
            );
        }
        if self.config.open_choices && self.rng.percent(10) {
            let other = self.plans[self.rng.below(self.plans.len())].name.clone();
            set.push(
                "ctx.seen",
                Node::text(format!("{{{{ steps.{other}.status == 'COMPLETED' }}}}")),
            );
        }
        set
    }

    fn next(&mut self, step: usize) -> Node {
        let plans = self.plans[step].arcs.clone();
        let inclusive = self.config.inclusive && self.rng.percent(45);
        if let Some(old) = self.old_next(&plans, inclusive) {
            return old;
        }
        let last = plans.len() - 1;
        let catcher = self.may_fail && self.rng.percent(75);
        let catcher = catcher.then(|| self.rng.below(plans.len()));
        let mut arcs = Vec::new();
        for (at, plan) in plans.into_iter().enumerate() {
            let catches = catcher == Some(at) && matches!(plan, ArcPlan::Forward(_));
            arcs.push(if catches {
                self.catching_arc(step, plan)
            } else {
                self.arc(step, plan, at == last)
            });
        }
        let mut spec = Node::map([] as [(&str, Node); 0]);
        if inclusive {
            spec.push("mode", Node::text("inclusive"));
        }
        if self.config.no_match_errors && self.rng.percent(5) {
            spec.push("on_no_match", Node::text("error"));
        }
        Node::map([("spec", spec), ("arcs", Node::List(arcs))])
    }

    /// The old forms of `next`, which have neither conditions nor writes.
    fn old_next(&mut self, plans: &[ArcPlan], inclusive: bool) -> Option<Node> {
        let names = plans.iter().map(|arc| match arc {
            ArcPlan::Forward(to) => Some(Node::text(self.plans[*to].name.clone())),
            ArcPlan::Back { .. } | ArcPlan::End => None,
        });
        let mut names: Vec<Node> = names.collect::<Option<_>>()?;
        if !self.rng.percent(12) || (names.len() > 1 && !inclusive) {
            return None;
        }
        if names.len() == 1 {
            names.pop()
        } else {
            Some(Node::List(names))
        }
    }

    fn target(&self, plan: ArcPlan) -> Node {
        Node::text(match plan {
            ArcPlan::Forward(to) | ArcPlan::Back { to, .. } => self.plans[to].name.clone(),
            ArcPlan::End => "end".to_owned(),
        })
    }

    /// An arc that is taken when the step fails.
    fn catching_arc(&mut self, step: usize, plan: ArcPlan) -> Node {
        let tests = [
            "{{ event.name == 'call.error' }}",
            "error",
            "output.status != 'fine'",
            "{{ error.kind }}",
        ];
        let when = Node::text(self.word(&tests));
        let mut arc = Node::map([("step", self.target(plan)), ("when", when)]);
        if self.config.writes && self.rng.percent(30) {
            let set = self.set(step, Site::Arc);
            arc.push("set", set);
        }
        arc
    }

    fn arc(&mut self, step: usize, plan: ArcPlan, is_last: bool) -> Node {
        let mut arc = Node::map([("step", self.target(plan))]);
        if let ArcPlan::Back { counter, .. } = plan {
            // Whatever lets the arc be taken, it counts itself, and so it is taken only so often.
            let bound = self.rng.between(1, 2);
            let guard = format!("(ctx.c{counter} | default(0)) < {bound}");
            let more = if self.rng.percent(30) {
                " and event.name != 'step.skipped'"
            } else {
                ""
            };
            arc.push("when", Node::text(format!("{{{{ {guard}{more} }}}}")));
            let next = Node::text(format!("{{{{ (ctx.c{counter} | default(0)) + 1 }}}}"));
            arc.push("set", Node::map([(format!("ctx.c{counter}"), next)]));
            return arc;
        }
        if !(is_last && self.rng.percent(70)) && self.rng.percent(65) {
            let when = self.condition(step, Site::Arc);
            arc.push("when", when);
        }
        if self.config.writes && self.rng.percent(20) {
            let set = self.set(step, Site::Arc);
            arc.push("set", set);
        }
        arc
    }
}
