use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn behaves_like_a_set(
        operations in prop::collection::vec((any::<bool>(), 0..200_u32), 0..60),
        others in prop::collection::btree_set(0..200_u32, 0..60),
    ) {
        let mut set = StepSet::with_capacity(200);
        let mut model = BTreeSet::new();
        for (is_insert, step) in operations {
            if is_insert {
                set.insert(StepIndex(step));
                model.insert(step);
            } else {
                set.remove(StepIndex(step));
                model.remove(&step);
            }
        }
        let mut other = StepSet::with_capacity(200);
        for step in &others {
            other.insert(StepIndex(*step));
        }
        let numbers = |steps: Vec<StepIndex>| steps.iter().map(|step| step.0).collect::<Vec<_>>();
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(numbers(set.iter().collect()), model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(
            numbers(set.difference(&other).collect()),
            model.difference(&others).copied().collect::<Vec<_>>()
        );
        set.insert_all(&other);
        prop_assert_eq!(
            numbers(set.iter().collect()),
            model.union(&others).copied().collect::<Vec<_>>()
        );
    }
}
