//! The shape of a generated playbook: steps and where they lead.

use super::{ArcPlan, Body, Generator, Plan};

impl Generator<'_> {
    /// Decides names, arcs and bodies of all steps.
    pub(super) fn plan(&mut self, count: usize) {
        let start = self.rng.percent(30);
        for step in 0..count {
            let name = if step == 0 && start {
                "start".to_owned()
            } else {
                format!("s{step}")
            };
            let body = if self.config.pipelines && self.rng.percent(25) {
                Body::Pipeline
            } else {
                Body::Single
            };
            self.plans.push(Plan {
                name,
                arcs: Vec::new(),
                ancestors: Vec::new(),
                body,
            });
        }
        self.lead_forward(count);
        if self.config.cycles {
            self.lead_back(count);
        }
        if self.config.open_choices && self.rng.percent(15) {
            let step = self.rng.below(count);
            self.plans[step].arcs.push(ArcPlan::End);
        }
        for step in 0..count {
            self.shuffle_arcs(step);
        }
        for step in 0..count {
            self.plans[step].ancestors = self.ancestors(step);
        }
    }

    fn lead_forward(&mut self, count: usize) {
        for step in 1..count {
            // A step that nothing leads to is rare, but it must be survived.
            if self.rng.percent(95) {
                let from = self.rng.below(step);
                self.plans[from].arcs.push(ArcPlan::Forward(step));
            }
        }
        for step in 0..count.saturating_sub(1) {
            if self.rng.percent(40) {
                let target = self.rng.between(step + 1, count - 1);
                self.plans[step].arcs.push(ArcPlan::Forward(target));
            }
        }
    }

    fn lead_back(&mut self, count: usize) {
        if !self.config.writes || !self.rng.percent(50) {
            return;
        }
        for counter in 0..self.rng.between(1, 3) {
            let from = self.rng.below(count);
            let to = self.rng.below(from + 1);
            self.plans[from].arcs.push(ArcPlan::Back { to, counter });
        }
    }

    fn shuffle_arcs(&mut self, step: usize) {
        for at in (1..self.plans[step].arcs.len()).rev() {
            let other = self.rng.below(at + 1);
            self.plans[step].arcs.swap(at, other);
        }
    }

    /// Every other step from which this one can be reached.
    fn ancestors(&self, step: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open = vec![step];
        while let Some(target) = open.pop() {
            for (from, plan) in self.plans.iter().enumerate() {
                let leads = plan.arcs.iter().any(|arc| arc.target() == Some(target));
                if leads && from != step && !found.contains(&from) {
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
    fn target(self) -> Option<usize> {
        match self {
            Self::Forward(to) | Self::Back { to, .. } => Some(to),
            Self::End => None,
        }
    }
}
