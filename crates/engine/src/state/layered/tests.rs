use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum MapOperation {
    Insert(u32, u32),
    Remove(u32),
    Add(u32),
    Touch(u32),
    /// Continues with a copy, keeping or dropping the original.
    Copy {
        keep: bool,
    },
    Settle,
}

fn arb_operation() -> impl Strategy<Value = MapOperation> {
    prop_oneof![
        (0..20_u32, 0..100_u32).prop_map(|(key, value)| MapOperation::Insert(key, value)),
        (0..20_u32).prop_map(MapOperation::Remove),
        (0..20_u32).prop_map(MapOperation::Add),
        (0..20_u32).prop_map(MapOperation::Touch),
        any::<bool>().prop_map(|keep| MapOperation::Copy { keep }),
        Just(MapOperation::Settle),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map(operations in prop::collection::vec(arb_operation(), 0..120)) {
        let mut layered = LayeredMap::<u32, u32>::default();
        let mut model = BTreeMap::new();
        let mut originals = Vec::new();
        for operation in operations {
            match operation {
                MapOperation::Insert(key, value) => {
                    layered.insert(key, value);
                    model.insert(key, value);
                }
                MapOperation::Remove(key) => prop_assert_eq!(layered.remove(&key), model.remove(&key)),
                MapOperation::Add(key) => {
                    if let Some(value) = layered.get_mut(&key) { *value += 1; }
                    if let Some(value) = model.get_mut(&key) { *value += 1; }
                }
                MapOperation::Touch(key) => {
                    *layered.get_or_insert_with(key, || 7) += 1;
                    *model.entry(key).or_insert(7) += 1;
                }
                MapOperation::Copy { keep } => {
                    let copy = layered.clone();
                    let original = std::mem::replace(&mut layered, copy);
                    if keep { originals.push((original, model.clone())); }
                }
                MapOperation::Settle => layered.settle(),
            }
            prop_assert_eq!(layered.len(), model.len());
            prop_assert!(layered.iter().eq(model.iter()));
            prop_assert!(model.keys().all(|key| layered.get(key) == model.get(key)));
        }
        // Changes of a copy do not affect the original.
        for (original, model) in originals {
            prop_assert!(original.iter().eq(model.iter()));
        }
    }
}

#[test]
fn unshared_map_merges_its_patch() {
    let mut map: LayeredMap<u32, u32> = (0..10).map(|key| (key, key)).collect();
    let original = map.clone();
    map.insert(3, 30);
    assert_eq!((map.patch.len(), original.get(&3)), (1, Some(&3)));
    drop(original);
    map.settle();
    assert!(map.patch.is_empty());
    assert_eq!(map.get(&3), Some(&30));
}

#[test]
fn long_lived_reader_does_not_grow_patch() {
    let mut map: LayeredMap<u32, u32> = (0..1000).map(|key| (key, key)).collect();
    let reader = map.clone();
    for key in 0..1000 {
        let mut copy = map.clone();
        copy.insert(key, 0);
        map = copy;
        map.settle();
        assert!(map.patch.len() <= 251);
    }
    assert_eq!(reader.get(&999), Some(&999));
}
