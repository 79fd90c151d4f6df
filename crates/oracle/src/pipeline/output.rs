//! What `output` makes of data: selected parts, and runs that are put together.

use std::sync::Arc;

use noetl_playbook::model::{Accumulate, AccumulateStrategy, OutputSpec, Select};
use noetl_types::{Json, JsonMap};

/// How runs are put together, where they are.
pub(crate) fn accumulation<'o>(
    outputs: impl IntoIterator<Item = &'o OutputSpec>,
) -> Option<&'o Accumulate> {
    let specs = outputs
        .into_iter()
        .filter_map(|output| output.accumulate.as_ref());
    specs.into_iter().find(|spec| spec.enabled)
}

/// Adds selected parts to a map. Choice: what is there already stays, and what is no map stays as it is.
pub(crate) fn selected(data: Json, selects: &[Select]) -> Json {
    let Json::Map(map) = &data else {
        return data;
    };
    let mut with = JsonMap::clone(map);
    for select in selects {
        if let Some(part) = part_of(&data, &select.path)
            && !map.contains_key(&select.alias)
        {
            with.entry(Arc::clone(&select.alias)).or_insert(part);
        }
    }
    Json::from(with)
}

/// Follows a path one key or place at a time.
fn part_of(data: &Json, path: &str) -> Option<Json> {
    let path = path.trim_start_matches('$').replace('[', ".[");
    let mut found = data.clone();
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let place = key.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        found = match (&found, place) {
            (Json::List(items), Some(place)) => items.get(place.parse::<usize>().ok()?)?.clone(),
            (Json::Map(map), None) => map.get(key)?.clone(),
            _ => return None,
        };
    }
    Some(found)
}

/// All parts put together; `Err` where there are more than may be.
///
/// Choice: data without such a part adds nothing.
pub(crate) fn together(spec: &Accumulate, runs: &[Json]) -> Result<Json, u64> {
    let part = |run: &Json| match &spec.merge_path {
        None => Some(run.clone()),
        Some(path) => part_of(run, path),
    };
    let parts: Vec<Json> = runs.iter().filter_map(part).collect();
    let last = parts.last().cloned().unwrap_or_default();
    let whole = match spec.strategy {
        AccumulateStrategy::Append => Json::list(parts),
        AccumulateStrategy::Concat => Json::list(parts.into_iter().flat_map(|part| match part {
            Json::List(items) => items.to_vec(),
            Json::Null => Vec::new(),
            other => vec![other],
        })),
        AccumulateStrategy::Replace => last,
        AccumulateStrategy::Merge => parts.into_iter().reduce(merged).unwrap_or_default(),
    };
    let items = match &whole {
        Json::List(items) => items.len(),
        Json::Map(map) => map.len(),
        _ => 0,
    } as u64;
    match spec.max_items {
        Some(most) if items > most => Err(most),
        _ => Ok(whole),
    }
}

fn merged(under: Json, over: Json) -> Json {
    match (under, over) {
        (Json::Map(under), Json::Map(over)) => {
            let mut both = JsonMap::clone(&under);
            for (key, value) in over.iter() {
                let value = match both.get(key) {
                    Some(known) => merged(known.clone(), value.clone()),
                    None => value.clone(),
                };
                both.insert(Arc::clone(key), value);
            }
            Json::from(both)
        }
        (_, over) => over,
    }
}
