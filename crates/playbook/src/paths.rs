//! Paths of variables.
//!
//! A variable is identified by its path: `n`, or `a.b` for the key `b` of the map `a`. A dot inside
//! a key is written `\.`, a backslash `\\`. Values of one group are written in path order, so a map
//! is written before the keys inside it.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

/// Joins path segments into the form that events store.
pub fn path_text(segments: &[impl AsRef<str>]) -> Arc<str> {
    if let [only] = segments
        && !only.as_ref().contains(['.', '\\'])
    {
        return only.as_ref().into();
    }
    let escaped: Vec<String> = segments
        .iter()
        .map(|segment| segment.as_ref().replace('\\', "\\\\").replace('.', "\\."))
        .collect();
    escaped.join(".").into()
}

/// Splits a path in the form that events store into its segments.
pub fn path_segments(path: &str) -> Vec<Arc<str>> {
    let mut segments = Vec::new();
    let mut segment = String::new();
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => segment.extend(rest.next()),
            '.' => segments.push(Arc::from(std::mem::take(&mut segment))),
            other => segment.push(other),
        }
    }
    segments.push(segment.into());
    segments
}

/// Writes values into a map of variables.
pub fn write_variables(variables: &mut Json, values: &JsonMap) {
    update_map(variables, |map| {
        for (path, value) in values {
            if !path.contains(['.', '\\']) {
                map.insert(Arc::clone(path), value.clone());
            } else if let Some((key, rest)) = path_segments(path).split_first() {
                write_at(map, key, rest, value.clone());
            }
        }
    });
}

/// Sets the value at a path of keys, creating intermediate maps.
pub fn set_at_path(map: &mut JsonMap, path: &[Arc<str>], value: Json) {
    if let Some((key, rest)) = path.split_first() {
        write_at(map, key, rest, value);
    }
}

fn write_at(map: &mut JsonMap, key: &Arc<str>, rest: &[Arc<str>], value: Json) {
    match rest.split_first() {
        None => {
            map.insert(Arc::clone(key), value);
        }
        Some((next, rest)) => {
            let inner = map.entry(Arc::clone(key)).or_default();
            update_map(inner, |map| write_at(map, next, rest, value));
        }
    }
}

/// Changes a map in place. A value of another type is replaced by an empty map first.
fn update_map(value: &mut Json, change: impl FnOnce(&mut JsonMap)) {
    let mut map = match std::mem::take(value) {
        Json::Map(map) => map,
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_)
        | Json::List(_) => Arc::default(),
    };
    change(Arc::make_mut(&mut map));
    *value = Json::Map(map);
}

#[cfg(test)]
mod tests;
