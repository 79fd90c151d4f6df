//! Applies `output` to data: selects parts, and accumulates several runs.

use std::sync::Arc;

use noetl_playbook::model::{AccumulateSpec, AccumulateStrategy, OutputSpec, SelectedPath};
use noetl_types::{Json, JsonMap};

/// Returns the enabled accumulation, if any.
pub(crate) fn enabled_accumulation<'o>(
    outputs: impl IntoIterator<Item = &'o OutputSpec>,
) -> Option<&'o AccumulateSpec> {
    let specs = outputs.into_iter().filter_map(|output| output.accumulate.as_ref());
    specs.into_iter().find(|spec| spec.enabled)
}

/// Adds selected parts to a map. Choice: existing keys are kept, and data that is not a map is
/// unchanged.
pub(crate) fn apply_selection(data: Json, selects: &[SelectedPath]) -> Json {
    let Json::Map(map) = &data else {
        return data;
    };
    let mut selected = JsonMap::clone(map);
    for select in selects {
        if let Some(part) = extract_part(&data, &select.path)
            && !map.contains_key(&select.alias)
        {
            selected.entry(Arc::clone(&select.alias)).or_insert(part);
        }
    }
    Json::from(selected)
}

/// Follows a path one key or index at a time.
fn extract_part(data: &Json, path: &str) -> Option<Json> {
    let path = path.trim_start_matches('$').replace('[', ".[");
    let mut found = data.clone();
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let index = key.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        found = match (&found, index) {
            (Json::List(items), Some(index)) => items.get(index.parse::<usize>().ok()?)?.clone(),
            (Json::Map(map), None) => map.get(key)?.clone(),
            _ => return None,
        };
    }
    Some(found)
}

/// Accumulates all parts. Returns the limit as `Err` if there are more items than allowed.
///
/// Choice: data without such a part adds nothing.
pub(crate) fn accumulate_parts(spec: &AccumulateSpec, runs: &[Json]) -> Result<Json, u64> {
    let part = |run: &Json| match &spec.merge_path {
        None => Some(run.clone()),
        Some(path) => extract_part(run, path),
    };
    let parts: Vec<Json> = runs.iter().filter_map(part).collect();
    let last = parts.last().cloned().unwrap_or_default();
    let accumulated = match spec.strategy {
        AccumulateStrategy::Append => Json::list(parts),
        AccumulateStrategy::Concat => Json::list(parts.into_iter().flat_map(|part| match part {
            Json::List(items) => items.to_vec(),
            Json::Null => Vec::new(),
            other => vec![other],
        })),
        AccumulateStrategy::Replace => last,
        AccumulateStrategy::Merge => parts.into_iter().reduce(merge_deep).unwrap_or_default(),
    };
    let items = match &accumulated {
        Json::List(items) => items.len(),
        Json::Map(map) => map.len(),
        _ => 0,
    } as u64;
    match spec.max_items {
        Some(limit) if items > limit => Err(limit),
        _ => Ok(accumulated),
    }
}

fn merge_deep(base: Json, overlay: Json) -> Json {
    match (base, overlay) {
        (Json::Map(base), Json::Map(overlay)) => {
            let mut merged = JsonMap::clone(&base);
            for (key, value) in overlay.iter() {
                let value = match merged.get(key) {
                    Some(existing) => merge_deep(existing.clone(), value.clone()),
                    None => value.clone(),
                };
                merged.insert(Arc::clone(key), value);
            }
            Json::from(merged)
        }
        (_, overlay) => overlay,
    }
}
