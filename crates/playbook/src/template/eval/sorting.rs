//! Filters that compare items: sort, unique, groupby, min, max.

use std::cmp::Ordering;

use noetl_types::Json;

use super::attribute_path::AttributePath;
use super::context::RenderContext;
use super::value::Value;
use crate::template::order;
use crate::template::render_error::EvalResult;
use crate::template::render_meter::RenderMeter;

/// The key by which items are compared.
pub(super) struct SortKey {
    /// One path for each key part. Empty if the items themselves are compared.
    pub(super) paths: Vec<AttributePath>,
    /// Replaces an attribute that an item does not have.
    pub(super) default: Option<Json>,
    pub(super) case_sensitive: bool,
}

impl SortKey {
    /// Parses the attribute of a filter. Several attributes are separated by commas.
    pub(super) fn new(
        attribute: Option<&Json>,
        case_sensitive: bool,
        meter: &RenderMeter,
    ) -> EvalResult<Self> {
        let paths = match attribute {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Str(text)) => {
                let paths = text
                    .split(',')
                    .map(|part| AttributePath::parse(&Json::from(part.trim()), meter));
                paths.collect::<EvalResult<_>>()?
            }
            Some(attribute) => vec![AttributePath::parse(attribute, meter)?],
        };
        Ok(Self { paths, default: None, case_sensitive })
    }

    /// The comparison key of an item.
    fn item_key(&self, item: &Json, context: &RenderContext<'_>) -> EvalResult<Json> {
        let path_key = |path: &AttributePath| {
            let value = path.get(item).or_else(|| self.default.clone()).unwrap_or_default();
            self.fold_case(value, context)
        };
        match self.paths.as_slice() {
            [] => self.fold_case(item.clone(), context),
            [path] => path_key(path),
            paths => {
                context.meter.charge_list(paths.len())?;
                Ok(Json::from(paths.iter().map(path_key).collect::<EvalResult<Vec<_>>>()?))
            }
        }
    }

    fn fold_case(&self, key: Json, context: &RenderContext<'_>) -> EvalResult<Json> {
        match &key {
            Json::Str(text) if !self.case_sensitive => context.lowercase_text(text).map(Json::Str),
            _ => Ok(key),
        }
    }
}

impl RenderContext<'_> {
    fn sort_keys(&self, items: &[Json], sort_key: &SortKey) -> EvalResult<Vec<Json>> {
        self.meter.charge_list(items.len())?;
        items.iter().map(|item| sort_key.item_key(item, self)).collect()
    }

    /// The positions of the items in the order of their keys. The sort is stable.
    fn rank_items(&self, keys: &[Json], reverse: bool) -> EvalResult<Vec<usize>> {
        // Charges the positions, and the copies during the merge.
        self.meter.charge_list(keys.len())?;
        order::merge_sort((0..keys.len()).collect(), &mut |a: &usize, b: &usize| {
            let order = order::compare_values(&keys[*a], &keys[*b], &self.meter)?;
            Ok(if reverse { order.reverse() } else { order })
        })
    }

    pub(super) fn sort_items(
        &self,
        items: &[Json],
        sort_key: &SortKey,
        reverse: bool,
    ) -> EvalResult<Json> {
        let keys = self.sort_keys(items, sort_key)?;
        let ranking = self.rank_items(&keys, reverse)?;
        self.meter.charge_list(items.len())?;
        Ok(Json::from(ranking.into_iter().map(|index| items[index].clone()).collect::<Vec<_>>()))
    }

    /// The first item of each group of equal items, in the order of the list.
    pub(super) fn unique_items(&self, items: &[Json], sort_key: &SortKey) -> EvalResult<Json> {
        let keys = self.sort_keys(items, sort_key)?;
        let ranking = self.rank_items(&keys, false)?;
        let mut first = Vec::with_capacity(ranking.len());
        for (rank, index) in ranking.iter().enumerate() {
            let repeated = match rank.checked_sub(1).and_then(|before| ranking.get(before)) {
                Some(before) => order::values_equal(&keys[*before], &keys[*index], &self.meter)?,
                None => false,
            };
            if !repeated {
                first.push(*index);
            }
        }
        self.meter.charge_list(2 * first.len())?;
        first.sort_unstable();
        Ok(Json::from(first.into_iter().map(|index| items[index].clone()).collect::<Vec<_>>()))
    }

    /// Pairs of a key and its items, in the order of the keys.
    pub(super) fn group_items(&self, items: &[Json], sort_key: &SortKey) -> EvalResult<Json> {
        let keys = self.sort_keys(items, sort_key)?;
        let ranking = self.rank_items(&keys, false)?;
        // Each group is a list inside a pair, and each pair is a list too.
        self.meter.charge_list(8 * items.len())?;
        let mut groups: Vec<(usize, Vec<Json>)> = Vec::new();
        for index in ranking {
            self.meter.check_nesting(&items[index], 4)?;
            let same = match groups.last() {
                Some((first, _)) => order::values_equal(&keys[*first], &keys[index], &self.meter)?,
                None => false,
            };
            match groups.last_mut() {
                Some((_, group)) if same => group.push(items[index].clone()),
                Some(_) | None => groups.push((index, vec![items[index].clone()])),
            }
        }
        let exact = SortKey { case_sensitive: true, paths: Vec::new(), default: None };
        let pairs = groups.into_iter().map(|(first, group)| {
            // The output has the key as the first item spells it, not the case-folded one.
            let key = match sort_key.paths.as_slice() {
                [path] => {
                    path.get(&items[first]).or_else(|| sort_key.default.clone()).unwrap_or_default()
                }
                _ => exact.fold_case(keys[first].clone(), self)?,
            };
            self.meter.check_nesting(&key, 3)?;
            Ok(Json::list([key, Json::from(group)]))
        });
        Ok(Json::from(pairs.collect::<EvalResult<Vec<_>>>()?))
    }

    /// The smallest or largest item. The first one if several are equal.
    pub(super) fn extreme_item(
        &self,
        items: &[Json],
        sort_key: &SortKey,
        ordering: Ordering,
    ) -> EvalResult<Value> {
        let keys = self.sort_keys(items, sort_key)?;
        let mut best = None;
        for (index, key) in keys.iter().enumerate() {
            let better = match best {
                Some(best) => order::compare_values(key, &keys[best], &self.meter)? == ordering,
                None => true,
            };
            if better {
                best = Some(index);
            }
        }
        Ok(best.and_then(|index: usize| items.get(index)).cloned().into())
    }
}
