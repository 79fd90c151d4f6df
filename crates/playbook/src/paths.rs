//! The paths that variables are written under.
//!
//! A variable is named by its path: `n`, or `a.b` for the key `b` of the map `a`. A dot that belongs
//! to a key itself is written `\.`, a backslash `\\`. Values of one group are written in the order
//! of their paths, so a map comes before the keys that are put into it.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

/// The path of a variable, as events write it.
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

/// The keys of a path, as events write it.
pub fn path_segments(path: &str) -> Vec<Arc<str>> {
    let mut segments = Vec::new();
    let mut segment = String::new();
    let mut rest = path.chars();
    while let Some(found) = rest.next() {
        match found {
            '\\' => segment.extend(rest.next()),
            '.' => segments.push(Arc::from(std::mem::take(&mut segment))),
            other => segment.push(other),
        }
    }
    segments.push(segment.into());
    segments
}

/// Writes values into a map of variables.
pub fn write(variables: &mut Json, values: &JsonMap) {
    change_map(variables, |map| {
        for (path, value) in values {
            if !path.contains(['.', '\\']) {
                map.insert(Arc::clone(path), value.clone());
            } else if let Some((key, rest)) = path_segments(path).split_first() {
                write_at(map, key, rest, value.clone());
            }
        }
    });
}

/// Puts a value at a path of keys.
pub fn put_at(map: &mut JsonMap, path: &[Arc<str>], value: Json) {
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
            change_map(inner, |map| write_at(map, next, rest, value));
        }
    }
}

/// Changes a map in place; whatever else stands there gives way to one.
fn change_map(value: &mut Json, change: impl FnOnce(&mut JsonMap)) {
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
mod tests {
    use noetl_types::json::parse;
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    fn map(text: &str) -> JsonMap {
        json(text).as_map().unwrap().clone()
    }

    #[test]
    fn writes_go_where_their_paths_say() {
        let mut ctx = json(r#"{"a":{"x":1},"n":1}"#);
        write(
            &mut ctx,
            &map(r#"{"a.b.c":2,"n":3,"n2.k":4,"dotted\\.key":5}"#),
        );
        assert_eq!(
            ctx,
            json(r#"{"a":{"b":{"c":2},"x":1},"dotted.key":5,"n":3,"n2":{"k":4}}"#)
        );
    }

    #[test]
    fn a_map_comes_before_the_keys_put_into_it() {
        let mut ctx = Json::empty_map();
        write(&mut ctx, &map(r#"{"a.b":1,"a":{"z":0}}"#));
        assert_eq!(ctx, json(r#"{"a":{"b":1,"z":0}}"#));
    }

    #[test]
    fn what_is_no_map_gives_way() {
        let mut ctx = json(r#"{"a":[1]}"#);
        write(&mut ctx, &map(r#"{"a.b":1}"#));
        assert_eq!(ctx, json(r#"{"a":{"b":1}}"#));
    }

    proptest! {
        #[test]
        fn paths_read_back(segments in prop::collection::vec("[a-c.\\\\]{0,4}", 1..4)) {
            let text = path_text(&segments);
            let back: Vec<String> = path_segments(&text).iter().map(ToString::to_string).collect();
            prop_assert_eq!(back, segments);
        }
    }
}
