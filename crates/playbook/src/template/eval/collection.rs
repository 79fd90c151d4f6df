//! Filters and methods on lists and maps.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::Evaluator;
use super::call::CallArgs;
use super::context::{RenderContext, Value, plain_member};
use crate::template::error::{EvalError, EvalResult};
use crate::template::meter::RenderMeter;
use crate::template::number;
use crate::template::order::{compare_values, merge_sort};
use crate::template::program::{Expr, ItemFilter, MathOp};

/// A path to a part of an item: `name`, `a.b`, `0.id`.
struct AttributePath(Vec<Json>);

impl AttributePath {
    /// Parses an attribute: a text with dots, or a position.
    fn parse(attribute: &Json, meter: &RenderMeter) -> EvalResult<Self> {
        match attribute {
            Json::Str(text) => {
                meter.charge_text_list(text.matches('.').count() + 1, text.len())?;
                Ok(Self(text.split('.').map(Json::from).collect()))
            }
            Json::Int(_) => Ok(Self(vec![attribute.clone()])),
            _ => {
                let found = attribute.type_name();
                let message = format!("an attribute must be a text or an integer, not a {found}");
                Err(EvalError::failed(message))
            }
        }
    }

    /// Returns the part of an item at this path.
    fn get(&self, item: &Json) -> Option<Json> {
        let found = self.0.iter().try_fold(item, |value, key| match (key, value) {
            (Json::Str(key), Json::List(items)) => match key.parse::<usize>() {
                Ok(index) => items.get(index),
                Err(_) => plain_member(value, key),
            },
            (Json::Str(key), _) => plain_member(value, key),
            (key, Json::List(items)) => items.get(usize::try_from(key.as_i64()?).ok()?),
            (key, _) => plain_member(value, &key.to_string()),
        });
        found.cloned()
    }
}

impl Evaluator<'_> {
    /// Applies a filter to every item.
    pub(super) fn apply_item_filter(
        &mut self,
        value: Value,
        item_filter: &ItemFilter,
    ) -> EvalResult<Value> {
        let context = self.context;
        let items = context.to_items(&context.convert_to_json(value)?)?;
        context.meter.charge_list(items.len())?;
        let mut list = Vec::with_capacity(items.len());
        match item_filter {
            ItemFilter::MapAttribute { path, default } => {
                let path = self.eval_path(path)?;
                let default = match default {
                    Some(default) => self.eval_json(default)?,
                    None => Json::Null,
                };
                let parts = items.iter().map(|item| path.get(item));
                list.extend(parts.map(|part| part.unwrap_or_else(|| default.clone())));
            }
            ItemFilter::MapFilter(filter, params) => {
                let params = self.eval_params(params)?;
                for item in items.iter() {
                    let mapped = context.apply_filter(filter, item.clone().into(), &params)?;
                    let mapped = context.convert_to_json(mapped)?;
                    context.meter.check_nesting(&mapped, 2)?;
                    list.push(mapped);
                }
            }
            ItemFilter::Keep { attribute, test, when } => {
                let path = attribute.as_ref().map(|path| self.eval_path(path)).transpose()?;
                let test = match test {
                    Some((test, params)) => Some((test, self.eval_params(params)?)),
                    None => None,
                };
                for item in items.iter() {
                    let tested: Value = match &path {
                        Some(path) => path.get(item).into(),
                        None => item.clone().into(),
                    };
                    let passes = match &test {
                        Some((test, params)) => context.eval_test(test, &tested, params)?,
                        None => context.is_true_value(&tested)?,
                    };
                    if passes == *when {
                        list.push(item.clone());
                    }
                }
            }
        }
        Ok(Json::from(list).into())
    }

    fn eval_path(&mut self, path: &Expr) -> EvalResult<AttributePath> {
        AttributePath::parse(&self.eval_json(path)?, &self.context.meter)
    }
}

/// `length`: the number of characters, items or entries.
pub(super) fn length(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    match value {
        Json::Null => Ok(Json::Int(0)),
        Json::Str(text) => {
            args.context.meter.charge_scan(text.len())?;
            Ok(Json::from(text.chars().count()))
        }
        Json::List(items) => Ok(Json::from(items.len())),
        Json::Map(map) => Ok(Json::from(map.len())),
        _ => Err(EvalError::failed(format!("a {} has no length", value.type_name()))),
    }
}

/// `first`: the first item or character.
pub(super) fn first(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    match args.context.convert_to_json(value.clone())? {
        Json::Str(text) => Ok(text.chars().next().map(|c| Json::from(c.to_string())).into()),
        value => Ok(args.context.to_items(&value)?.first().cloned().into()),
    }
}

/// `last`: the last item or character.
pub(super) fn last(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    match args.context.convert_to_json(value.clone())? {
        Json::Str(text) => Ok(text.chars().next_back().map(|c| Json::from(c.to_string())).into()),
        value => Ok(args.context.to_items(&value)?.last().cloned().into()),
    }
}

/// `list`
pub(super) fn list(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    args.context.to_items(value).map(Json::List)
}

/// `keys`
pub(super) fn keys(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    collect_entries(args, value, |key, _| Json::Str(Arc::clone(key)))
}

/// `values`
pub(super) fn values(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    collect_entries(args, value, |_, value| value.clone())
}

/// `items`: the entries of a map as pairs.
pub(super) fn items(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    for item in value.as_map().into_iter().flat_map(|map| map.values()) {
        args.context.meter.check_nesting(item, 3)?;
    }
    // Each pair is allocated as a separate list.
    args.context.meter.charge_list(4 * value.as_map().map_or(0, JsonMap::len))?;
    collect_entries(args, value, |key, value| {
        Json::list([Json::Str(Arc::clone(key)), value.clone()])
    })
}

/// Collects a part of each entry of a map. Undefined and null have no entries.
fn collect_entries(
    args: &CallArgs<'_>,
    value: &Json,
    pick: impl Fn(&Arc<str>, &Json) -> Json,
) -> EvalResult<Json> {
    match value {
        Json::Null => Ok(Json::from(Vec::new())),
        Json::Map(map) => {
            args.context.meter.charge_list(map.len())?;
            let mut list = Vec::with_capacity(map.len());
            list.extend(map.iter().map(|(key, value)| pick(key, value)));
            Ok(Json::from(list))
        }
        _ => Err(EvalError::failed(format!("a {} has no keys", value.type_name()))),
    }
}

/// `reverse`
pub(super) fn reverse(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    if let Json::Str(text) = value {
        args.context.meter.charge_text(text.len())?;
        let mut reversed = String::with_capacity(text.len());
        reversed.extend(text.chars().rev());
        return Ok(Json::Str(reversed.into()));
    }
    let items = args.context.to_items(value)?;
    args.context.meter.charge_list(items.len())?;
    Ok(Json::from(items.iter().rev().cloned().collect::<Vec<_>>()))
}

/// `join`: the printed items, or one attribute of each, with a separator between them.
pub(super) fn join(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let separator = args.text_at(0)?.unwrap_or_default();
    let items = args.context.to_items(value)?;
    let Some(attribute) = args.value_at(1)? else {
        return args.context.join_printed(&items, &separator);
    };
    let path = AttributePath::parse(&attribute, &args.context.meter)?;
    args.context.meter.charge_list(items.len())?;
    let parts: Vec<_> = items.iter().map(|item| path.get(item).unwrap_or_default()).collect();
    args.context.join_printed(&parts, &separator)
}

/// `sum`: the sum of numbers, or of one attribute of each item.
pub(super) fn sum(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let mut sum = args.value_at(1)?.unwrap_or(Json::Int(0));
    let attribute = args.value_at(0)?;
    let items = args.context.to_items(value)?;
    meter.charge_fuel(items.len())?;
    let path = attribute.map(|attribute| AttributePath::parse(&attribute, meter)).transpose()?;
    for item in items.iter() {
        sum = match &path {
            Some(path) => {
                let part = path.get(item).unwrap_or_default();
                number::apply_operator(MathOp::Add, &sum, &part)?
            }
            None => number::apply_operator(MathOp::Add, &sum, item)?,
        };
    }
    Ok(sum)
}

/// Items and the keys by which they are compared.
struct KeyedItems<'a> {
    context: &'a RenderContext<'a>,
    items: Arc<Vec<Json>>,
    keys: Vec<Json>,
    /// One path for each key part. Empty if the items themselves are compared.
    paths: Vec<AttributePath>,
    /// Replaces an attribute that an item does not have.
    default: Option<Json>,
}

impl<'a> KeyedItems<'a> {
    /// Reads the attribute of a filter, several separated by commas, and whether case matters.
    fn new(
        args: &CallArgs<'a>,
        value: &Json,
        [attribute, case_sensitive]: [usize; 2],
        default: Option<usize>,
    ) -> EvalResult<Self> {
        let context = args.context;
        let meter = &context.meter;
        let attribute = args.value_at(attribute)?;
        let case_sensitive = args.is_true_at(case_sensitive)?;
        let paths = match attribute {
            None => Vec::new(),
            Some(Json::Str(text)) => {
                let parts = text.split(',').map(|part| Json::from(part.trim()));
                parts.map(|part| AttributePath::parse(&part, meter)).collect::<EvalResult<_>>()?
            }
            Some(attribute) => vec![AttributePath::parse(&attribute, meter)?],
        };
        let default = default.map_or(Ok(None), |default| args.value_at(default))?;
        let items = context.to_items(value)?;
        meter.charge_list(items.len())?;
        let mut keyed = Self { context, items, keys: Vec::new(), paths, default };
        let keys = keyed.items.iter().map(|item| keyed.item_key(item, case_sensitive));
        keyed.keys = keys.collect::<EvalResult<_>>()?;
        Ok(keyed)
    }

    /// The part of an item at a path, or else the default.
    fn part_at(&self, path: &AttributePath, item: &Json) -> Json {
        path.get(item).or_else(|| self.default.clone()).unwrap_or_default()
    }

    /// The comparison key of an item.
    fn item_key(&self, item: &Json, case_sensitive: bool) -> EvalResult<Json> {
        let fold_case = |key: Json| match &key {
            Json::Str(text) if !case_sensitive => self.context.fold_case(text),
            _ => Ok(key),
        };
        match self.paths.as_slice() {
            [] => fold_case(item.clone()),
            [path] => fold_case(self.part_at(path, item)),
            paths => {
                self.context.meter.charge_list(paths.len())?;
                let parts = paths.iter().map(|path| fold_case(self.part_at(path, item)));
                Ok(Json::from(parts.collect::<EvalResult<Vec<_>>>()?))
            }
        }
    }

    fn compare(&self, left: usize, right: usize) -> EvalResult<Ordering> {
        compare_values(&self.keys[left], &self.keys[right], &self.context.meter)
    }

    /// The positions of the items in the order of their keys. The sort is stable.
    fn rank(&self, reverse: bool) -> EvalResult<Vec<usize>> {
        // Charges the positions, and the copies during the merge.
        self.context.meter.charge_list(self.keys.len())?;
        merge_sort((0..self.keys.len()).collect(), &mut |left: &usize, right: &usize| {
            let order = self.compare(*left, *right)?;
            Ok(if reverse { order.reverse() } else { order })
        })
    }

    fn pick(&self, positions: Vec<usize>) -> Json {
        Json::from(positions.into_iter().map(|index| self.items[index].clone()).collect::<Vec<_>>())
    }

    /// The item whose key has this order to all other keys. The first one if several are equal.
    fn extreme(&self, ordering: Ordering) -> EvalResult<Value> {
        let mut best = None;
        for index in 0..self.keys.len() {
            let better = match best {
                Some(best) => self.compare(index, best)? == ordering,
                None => true,
            };
            if better {
                best = Some(index);
            }
        }
        Ok(best.map(|index| self.items[index].clone()).into())
    }
}

/// `sort`
pub(super) fn sort(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let is_reverse = args.is_true_at(0)?;
    let keyed = KeyedItems::new(args, value, [2, 1], None)?;
    let ranking = keyed.rank(is_reverse)?;
    args.context.meter.charge_list(ranking.len())?;
    Ok(keyed.pick(ranking))
}

/// `unique`: the first item of each group of equal items, in the order of the list.
pub(super) fn unique(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let keyed = KeyedItems::new(args, value, [1, 0], None)?;
    let ranking = keyed.rank(false)?;
    let mut first = Vec::with_capacity(ranking.len());
    let mut previous = None;
    for index in ranking {
        let repeated = match previous.replace(index) {
            Some(previous) => keyed.compare(previous, index)?.is_eq(),
            None => false,
        };
        if !repeated {
            first.push(index);
        }
    }
    args.context.meter.charge_list(2 * first.len())?;
    first.sort_unstable();
    Ok(keyed.pick(first))
}

/// `groupby`: pairs of a key and its items, in the order of the keys.
pub(super) fn groupby(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let meter = &args.context.meter;
    let keyed = KeyedItems::new(args, value, [0, 2], Some(1))?;
    let ranking = keyed.rank(false)?;
    // Each group is a list inside a pair, and each pair is a list too.
    meter.charge_list(8 * ranking.len())?;
    let mut groups: Vec<(usize, Vec<Json>)> = Vec::new();
    for index in ranking {
        let item = &keyed.items[index];
        meter.check_nesting(item, 4)?;
        match groups.last_mut() {
            Some((first, group)) if keyed.compare(*first, index)?.is_eq() => {
                group.push(item.clone());
            }
            _ => groups.push((index, vec![item.clone()])),
        }
    }
    let pairs = groups.into_iter().map(|(first, group)| {
        // The output has the key as the first item spells it, not the case-folded one.
        let key = match keyed.paths.as_slice() {
            [path] => keyed.part_at(path, &keyed.items[first]),
            _ => keyed.keys[first].clone(),
        };
        meter.check_nesting(&key, 3)?;
        Ok(Json::list([key, Json::from(group)]))
    });
    Ok(Json::from(pairs.collect::<EvalResult<Vec<_>>>()?))
}

/// `min`
pub(super) fn min(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    let value = args.context.convert_to_json(value.clone())?;
    KeyedItems::new(args, &value, [1, 0], None)?.extreme(Ordering::Less)
}

/// `max`
pub(super) fn max(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    let value = args.context.convert_to_json(value.clone())?;
    KeyedItems::new(args, &value, [1, 0], None)?.extreme(Ordering::Greater)
}
