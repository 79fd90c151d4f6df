//! Steps of generated playbooks: guards, loops, writes and arcs around a tool.

use super::expressions::ExpressionSite;
use super::tasks::TaskLocation;
use super::{ArcPlan, DocumentNode, Generator};

impl Generator<'_> {
    /// Writes a step as planned.
    pub(super) fn step_node(&mut self, step: usize) -> DocumentNode {
        self.may_fail = false;
        let mut node = DocumentNode::from_entries([(
            "step",
            DocumentNode::from_text(self.plans[step].name.clone()),
        )]);
        if self.config.guards && self.rng.draw_percent(15) {
            let guard = self.condition_node(step, ExpressionSite::Guard);
            node.push("when", guard);
        }
        let parallel = self.config.parallel_loops && self.rng.draw_percent(50);
        let in_loop = (parallel || self.config.loops) && self.rng.draw_percent(30);
        let cursor = !in_loop && self.config.cursors && self.rng.draw_percent(12);
        let spec = self.step_spec(step, in_loop || cursor, cursor);
        if !matches!(&spec, DocumentNode::Map(entries) if entries.is_empty()) {
            node.push("spec", spec);
        }
        if self.config.slots && self.rng.draw_percent(15) {
            self.push_slot(&mut node);
        }
        if self.rng.draw_percent(12) {
            let number = self.number_expression(step, ExpressionSite::Task);
            node.push(
                "input",
                DocumentNode::from_entries([(
                    "k",
                    DocumentNode::from_text(format!("{{{{ {number} }}}}")),
                )]),
            );
        }
        if in_loop {
            let looping = self.loop_node(step, parallel);
            node.push("loop", looping);
        }
        if cursor {
            let looping = self.cursor_loop_node(step);
            node.push("loop", looping);
        }
        let location = if cursor {
            TaskLocation::Frame
        } else if in_loop {
            TaskLocation::Loop
        } else {
            TaskLocation::Once
        };
        let tool = self.tool_node(step, location);
        node.push("tool", tool);
        if self.config.outputs && !cursor && self.rng.draw_percent(if in_loop { 25 } else { 5 }) {
            let output = self.output_node();
            node.push("output", output);
        }
        if self.config.writes && self.rng.draw_percent(35) {
            let set = self.step_set_node(step);
            node.push("set", set);
        }
        if !self.plans[step].arcs.is_empty() {
            let next = self.next_node(step);
            node.push("next", next);
        }
        node
    }

    /// Writes the final step.
    pub(super) fn final_step_node(&mut self) -> DocumentNode {
        let fails = self.config.failures && self.rng.draw_percent(15);
        let command = if fails { "error transform" } else { "ok {\"n\": 9}" };
        let set = DocumentNode::from_entries([(
            "ctx.ended",
            DocumentNode::from_text("{{ event.name }}"),
        )]);
        let mut tool = DocumentNode::from_entries([
            ("kind", DocumentNode::from_text("shell")),
            ("command", DocumentNode::from_text(command)),
        ]);
        if self.config.sleeps && self.rng.draw_percent(25) {
            let mut sleep =
                DocumentNode::from_entries([("kind", DocumentNode::from_text("sleep"))]);
            sleep.push("for", self.duration_node(3));
            let label = |name: &str, task| DocumentNode::from_entries([(name, task)]);
            tool = DocumentNode::List(vec![label("rest", sleep), label("work", tool)]);
        }
        let mut node = DocumentNode::from_entries([
            ("step", DocumentNode::from_text("cleanup")),
            ("tool", tool),
        ]);
        if self.config.guards && self.rng.draw_percent(20) {
            let status = self.pick_text(&["COMPLETED", "FAILED"]);
            node.push(
                "when",
                DocumentNode::from_text(format!("{{{{ event.payload.status == '{status}' }}}}")),
            );
        }
        if self.config.writes {
            node.push("set", set);
        }
        node
    }

    fn step_spec(&mut self, step: usize, in_loop: bool, in_frames: bool) -> DocumentNode {
        let mut spec = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        let policy = self.step_policy(step, in_loop);
        if !matches!(&policy, DocumentNode::Map(entries) if entries.is_empty()) {
            spec.push("policy", policy);
        }
        if self.config.timeouts && self.rng.draw_percent(15) {
            self.may_fail = true;
            let timeout = self.duration_node(4);
            spec.push("timeout", timeout);
        }
        if self.config.caches && !in_frames && self.rng.draw_percent(15) {
            let cache = self.cache_node();
            spec.push("cache", cache);
        }
        spec
    }

    fn step_policy(&mut self, step: usize, in_loop: bool) -> DocumentNode {
        let mut policy = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        if self.config.admission && self.rng.draw_percent(8) {
            let allow =
                |allow: bool| DocumentNode::from_entries([("allow", DocumentNode::from(allow))]);
            let when = self.condition_node(step, ExpressionSite::Guard);
            let mut rules = vec![DocumentNode::from_entries([
                ("when", when),
                ("then", allow(self.rng.draw_percent(50))),
            ])];
            if self.rng.draw_percent(40) {
                rules.push(DocumentNode::from_entries([(
                    "else",
                    DocumentNode::from_entries([("then", allow(self.rng.draw_percent(50)))]),
                )]));
            }
            policy
                .push("admit", DocumentNode::from_entries([("rules", DocumentNode::List(rules))]));
        }
        if in_loop && self.config.best_effort && self.rng.draw_percent(35) {
            policy.push(
                "failure",
                DocumentNode::from_entries([("mode", DocumentNode::from_text("best_effort"))]),
            );
        }
        policy
    }

    fn loop_node(&mut self, step: usize, parallel: bool) -> DocumentNode {
        let items = match self.rng.number_below(9) {
            0 | 1 => DocumentNode::from_text("{{ workload.items }}"),
            2 => DocumentNode::from_text("{{ words }}"),
            3 => DocumentNode::from(self.rng.number_below(4)),
            4 => DocumentNode::from_text(format!(
                "{{{{ {} }}}}",
                self.number_expression(step, ExpressionSite::Guard)
            )),
            5 => DocumentNode::from_text("{{ {'b': 2, 'a': 1} }}"),
            6 if self.config.failures && self.rng.draw_percent(40) => {
                DocumentNode::from_text("{{ nothing_at_all }}")
            }
            6 if self.config.template_errors && self.rng.draw_percent(30) => {
                DocumentNode::from_text(format!("{{{{ {} }}}}", Self::broken_expression()))
            }
            _ => {
                DocumentNode::List((0..self.rng.number_below(4)).map(DocumentNode::from).collect())
            }
        };
        let mut looping =
            DocumentNode::from_entries([("in", items), ("iterator", DocumentNode::from_text("x"))]);
        if parallel {
            let mut spec =
                DocumentNode::from_entries([("mode", DocumentNode::from_text("parallel"))]);
            match self.rng.number_below(4) {
                0 => {}
                1 => spec.push("max_in_flight", DocumentNode::from_text("{{ w0 + 1 }}")),
                _ => spec.push("max_in_flight", DocumentNode::from(self.rng.number_between(1, 3))),
            }
            looping.push("spec", spec);
        }
        looping
    }

    fn step_set_node(&mut self, step: usize) -> DocumentNode {
        if self.config.template_errors && self.rng.draw_percent(2) {
            return DocumentNode::from_entries([(
                "ctx.v0",
                DocumentNode::from_text(format!("{{{{ {} }}}}", Self::broken_expression())),
            )]);
        }
        let mut set = self.set_node(step, ExpressionSite::Set);
        if self.config.open_choices && self.rng.draw_percent(10) {
            let name = &self.plans[step].name;
            set.push(
                "ctx.own",
                DocumentNode::from_text(format!("{{{{ {name}.n | default(0) }}}}")),
            );
        }
        if self.config.open_choices && self.rng.draw_percent(10) {
            let other = self.plans[self.rng.number_below(self.plans.len())].name.clone();
            set.push(
                "ctx.seen",
                DocumentNode::from_text(format!("{{{{ steps.{other}.status == 'COMPLETED' }}}}")),
            );
        }
        set
    }

    fn next_node(&mut self, step: usize) -> DocumentNode {
        let plans = self.plans[step].arcs.clone();
        let inclusive = self.config.inclusive && self.rng.draw_percent(45);
        if let Some(legacy) = self.legacy_next_node(&plans, inclusive) {
            return legacy;
        }
        let last = plans.len() - 1;
        let has_catcher = self.may_fail && self.rng.draw_percent(75);
        let catching_index = has_catcher.then(|| self.rng.number_below(plans.len()));
        let mut arcs = Vec::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let catches = catching_index == Some(index) && matches!(plan, ArcPlan::Forward(_));
            arcs.push(if catches {
                self.catching_arc(step, plan)
            } else {
                self.arc_node(step, plan, index == last)
            });
        }
        let mut spec = DocumentNode::from_entries([] as [(&str, DocumentNode); 0]);
        if inclusive {
            spec.push("mode", DocumentNode::from_text("inclusive"));
        }
        if self.config.no_match_errors && self.rng.draw_percent(5) {
            spec.push("on_no_match", DocumentNode::from_text("error"));
        }
        DocumentNode::from_entries([("spec", spec), ("arcs", DocumentNode::List(arcs))])
    }

    /// Writes one of the legacy forms of `next`, which have neither conditions nor writes.
    fn legacy_next_node(&mut self, plans: &[ArcPlan], inclusive: bool) -> Option<DocumentNode> {
        let names = plans.iter().map(|arc| match arc {
            ArcPlan::Forward(to) => Some(DocumentNode::from_text(self.plans[*to].name.clone())),
            ArcPlan::Back { .. } | ArcPlan::End => None,
        });
        let mut names: Vec<DocumentNode> = names.collect::<Option<_>>()?;
        if !self.rng.draw_percent(12) || (names.len() > 1 && !inclusive) {
            return None;
        }
        if names.len() == 1 { names.pop() } else { Some(DocumentNode::List(names)) }
    }

    fn arc_target_node(&self, plan: ArcPlan) -> DocumentNode {
        DocumentNode::from_text(match plan {
            ArcPlan::Forward(to) | ArcPlan::Back { to, .. } => self.plans[to].name.clone(),
            ArcPlan::End => "end".to_owned(),
        })
    }

    /// Writes an arc that is taken when the step fails.
    fn catching_arc(&mut self, step: usize, plan: ArcPlan) -> DocumentNode {
        let tests = [
            "{{ event.name == 'call.error' }}",
            "error",
            "output.status != 'fine'",
            "{{ error.kind }}",
        ];
        let when = DocumentNode::from_text(self.pick_text(&tests));
        let mut arc =
            DocumentNode::from_entries([("step", self.arc_target_node(plan)), ("when", when)]);
        if self.config.writes && self.rng.draw_percent(30) {
            let set = self.set_node(step, ExpressionSite::Arc);
            arc.push("set", set);
        }
        arc
    }

    fn arc_node(&mut self, step: usize, plan: ArcPlan, is_last: bool) -> DocumentNode {
        let mut arc = DocumentNode::from_entries([("step", self.arc_target_node(plan))]);
        if let ArcPlan::Back { counter, .. } = plan {
            // The arc counts itself under any condition, so the number of times it is taken is
            // bounded.
            let bound = self.rng.number_between(1, 2);
            let guard = format!("(ctx.c{counter} | default(0)) < {bound}");
            let extra_test =
                if self.rng.draw_percent(30) { " and event.name != 'step.skipped'" } else { "" };
            arc.push("when", DocumentNode::from_text(format!("{{{{ {guard}{extra_test} }}}}")));
            let next =
                DocumentNode::from_text(format!("{{{{ (ctx.c{counter} | default(0)) + 1 }}}}"));
            arc.push("set", DocumentNode::from_entries([(format!("ctx.c{counter}"), next)]));
            return arc;
        }
        if !(is_last && self.rng.draw_percent(70)) && self.rng.draw_percent(65) {
            let when = self.condition_node(step, ExpressionSite::Arc);
            arc.push("when", when);
        }
        if self.config.writes && self.rng.draw_percent(20) {
            let set = self.set_node(step, ExpressionSite::Arc);
            arc.push("set", set);
        }
        arc
    }
}
