//! Filters that compare items: sort, unique, groupby, min, max.

use std::cmp::Ordering;

use noetl_types::Json;

use super::path::Path;
use super::run::Run;
use super::value::Value;
use crate::template::error::Outcome;
use crate::template::meter::Meter;
use crate::template::order;

/// What items are compared by.
pub(super) struct By {
    /// One way into the item for each key; none compares the items themselves.
    pub(super) paths: Vec<Path>,
    /// Stands in for what an item does not have.
    pub(super) default: Option<Json>,
    pub(super) case_sensitive: bool,
}

impl By {
    /// Reads the attribute of a filter; several are written with commas between them.
    pub(super) fn new(
        attribute: Option<&Json>,
        case_sensitive: bool,
        meter: &Meter,
    ) -> Outcome<Self> {
        let paths = match attribute {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Str(text)) => {
                let paths = text
                    .split(',')
                    .map(|part| Path::parse(&Json::from(part.trim()), meter));
                paths.collect::<Outcome<_>>()?
            }
            Some(attribute) => vec![Path::parse(attribute, meter)?],
        };
        Ok(Self {
            paths,
            default: None,
            case_sensitive,
        })
    }

    /// What an item is compared by, and as what it is shown.
    fn key(&self, item: &Json, run: &Run<'_>) -> Outcome<Json> {
        let found = |path: &Path| {
            let found = path
                .get(item)
                .or_else(|| self.default.clone())
                .unwrap_or_default();
            self.folded(found, run)
        };
        match self.paths.as_slice() {
            [] => self.folded(item.clone(), run),
            [path] => found(path),
            paths => {
                run.meter.list(paths.len())?;
                Ok(Json::from(
                    paths.iter().map(found).collect::<Outcome<Vec<_>>>()?,
                ))
            }
        }
    }

    fn folded(&self, key: Json, run: &Run<'_>) -> Outcome<Json> {
        match &key {
            Json::Str(text) if !self.case_sensitive => run.lower(text).map(Json::Str),
            _ => Ok(key),
        }
    }
}

impl Run<'_> {
    fn keys(&self, items: &[Json], by: &By) -> Outcome<Vec<Json>> {
        self.meter.list(items.len())?;
        items.iter().map(|item| by.key(item, self)).collect()
    }

    /// The positions of items in the order of their keys; equals keep their order.
    fn ranking(&self, keys: &[Json], reverse: bool) -> Outcome<Vec<usize>> {
        // Positions, and twice as many while they are merged.
        self.meter.list(keys.len())?;
        order::sort((0..keys.len()).collect(), &mut |a: &usize, b: &usize| {
            let order = order::compare(&keys[*a], &keys[*b], &self.meter)?;
            Ok(if reverse { order.reverse() } else { order })
        })
    }

    pub(super) fn sort(&self, items: &[Json], by: &By, reverse: bool) -> Outcome<Json> {
        let keys = self.keys(items, by)?;
        let ranking = self.ranking(&keys, reverse)?;
        self.meter.list(items.len())?;
        Ok(Json::from(
            ranking
                .into_iter()
                .map(|at| items[at].clone())
                .collect::<Vec<_>>(),
        ))
    }

    /// The first of every run of equals, in the order of the list.
    pub(super) fn unique(&self, items: &[Json], by: &By) -> Outcome<Json> {
        let keys = self.keys(items, by)?;
        let ranking = self.ranking(&keys, false)?;
        let mut first = Vec::with_capacity(ranking.len());
        for (rank, at) in ranking.iter().enumerate() {
            let repeated = match rank.checked_sub(1).and_then(|before| ranking.get(before)) {
                Some(before) => order::equal(&keys[*before], &keys[*at], &self.meter)?,
                None => false,
            };
            if !repeated {
                first.push(*at);
            }
        }
        self.meter.list(2 * first.len())?;
        first.sort_unstable();
        Ok(Json::from(
            first
                .into_iter()
                .map(|at| items[at].clone())
                .collect::<Vec<_>>(),
        ))
    }

    /// Pairs of a key and the items that have it, in the order of the keys.
    pub(super) fn group(&self, items: &[Json], by: &By) -> Outcome<Json> {
        let keys = self.keys(items, by)?;
        let ranking = self.ranking(&keys, false)?;
        // Each group is a list in a pair, and each pair is a list as well.
        self.meter.list(8 * items.len())?;
        let mut groups: Vec<(usize, Vec<Json>)> = Vec::new();
        for at in ranking {
            self.meter.nest(&items[at], 4)?;
            let same = match groups.last() {
                Some((first, _)) => order::equal(&keys[*first], &keys[at], &self.meter)?,
                None => false,
            };
            match groups.last_mut() {
                Some((_, group)) if same => group.push(items[at].clone()),
                Some(_) | None => groups.push((at, vec![items[at].clone()])),
            }
        }
        let shown = By {
            case_sensitive: true,
            paths: Vec::new(),
            default: None,
        };
        let pairs = groups.into_iter().map(|(first, group)| {
            // The key is shown as the first item writes it, not as it was compared.
            let key = match by.paths.as_slice() {
                [path] => path
                    .get(&items[first])
                    .or_else(|| by.default.clone())
                    .unwrap_or_default(),
                _ => shown.folded(keys[first].clone(), self)?,
            };
            self.meter.nest(&key, 3)?;
            Ok(Json::list([key, Json::from(group)]))
        });
        Ok(Json::from(pairs.collect::<Outcome<Vec<_>>>()?))
    }

    /// The least or greatest item, the first of equals.
    pub(super) fn extreme(&self, items: &[Json], by: &By, wanted: Ordering) -> Outcome<Value> {
        let keys = self.keys(items, by)?;
        let mut best = None;
        for (at, key) in keys.iter().enumerate() {
            let better = match best {
                Some(best) => order::compare(key, &keys[best], &self.meter)? == wanted,
                None => true,
            };
            if better {
                best = Some(at);
            }
        }
        Ok(best.and_then(|at: usize| items.get(at)).cloned().into())
    }
}
