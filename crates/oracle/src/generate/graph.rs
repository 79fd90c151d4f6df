//! Graph of a generated playbook: steps and arcs.

use super::{ArcPlan, Generator, StepBody, StepPlan};

impl Generator<'_> {
    /// Plans names, arcs and bodies of all steps.
    pub(super) fn plan_steps(&mut self, count: usize) {
        let start = self.rng.draw_percent(30);
        for step in 0..count {
            let name = if step == 0 && start { "start".to_owned() } else { format!("s{step}") };
            let body = if self.config.pipelines && self.rng.draw_percent(25) {
                StepBody::Pipeline
            } else {
                StepBody::Single
            };
            self.plans.push(StepPlan { name, arcs: Vec::new(), ancestors: Vec::new(), body });
        }
        self.add_forward_arcs(count);
        if self.config.cycles {
            self.add_back_arcs(count);
        }
        if self.config.open_choices && self.rng.draw_percent(15) {
            let step = self.rng.number_below(count);
            self.plans[step].arcs.push(ArcPlan::End);
        }
        for step in 0..count {
            self.shuffle_arcs(step);
        }
        for step in 0..count {
            self.plans[step].ancestors = self.find_ancestors(step);
        }
    }

    fn add_forward_arcs(&mut self, count: usize) {
        for step in 1..count {
            // An unreachable step is rare but valid.
            if self.rng.draw_percent(95) {
                let from = self.rng.number_below(step);
                self.plans[from].arcs.push(ArcPlan::Forward(step));
            }
        }
        for step in 0..count.saturating_sub(1) {
            if self.rng.draw_percent(40) {
                let target = self.rng.number_between(step + 1, count - 1);
                self.plans[step].arcs.push(ArcPlan::Forward(target));
            }
        }
    }

    fn add_back_arcs(&mut self, count: usize) {
        if !self.config.writes || !self.rng.draw_percent(50) {
            return;
        }
        for counter in 0..self.rng.number_between(1, 3) {
            let from = self.rng.number_below(count);
            let to = self.rng.number_below(from + 1);
            self.plans[from].arcs.push(ArcPlan::Back { to, counter });
        }
    }

    fn shuffle_arcs(&mut self, step: usize) {
        for index in (1..self.plans[step].arcs.len()).rev() {
            let other = self.rng.number_below(index + 1);
            self.plans[step].arcs.swap(index, other);
        }
    }

    /// Returns every other step from which this one is reachable.
    fn find_ancestors(&self, step: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open = vec![step];
        while let Some(target) = open.pop() {
            for (from, plan) in self.plans.iter().enumerate() {
                let leads_to_target = plan.arcs.iter().any(|arc| arc.target_step() == Some(target));
                if leads_to_target && from != step && !found.contains(&from) {
                    found.push(from);
                    open.push(from);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

impl ArcPlan {
    fn target_step(self) -> Option<usize> {
        match self {
            Self::Forward(to) | Self::Back { to, .. } => Some(to),
            Self::End => None,
        }
    }
}
