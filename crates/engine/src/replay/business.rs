//! Business objects: things of a domain that events of any name are about.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::replay::{BusinessObjectEntry, PayloadRef};
use noetl_types::{EventStatus, Json, StatusName, Text};

use super::about::{About, number_of, text_of};

/// The aggregate type of such events, and the type of an object that names none.
const KIND: &str = "business_object";

pub(super) fn fold(
    objects: &mut BTreeMap<Text, BusinessObjectEntry>,
    about: &About<'_>,
    payload: Option<PayloadRef>,
) {
    let Some((object_type, object_id)) = identity(about) else {
        return;
    };
    let key = Text::from(format!("{object_type}/{object_id}"));
    let event_type = &about.record.event.event_type;
    let entry = objects
        .entry(key.clone())
        .or_insert_with(|| BusinessObjectEntry {
            attributes: Json::empty_map(),
            deleted_event_id: None,
            event_count: 0,
            first_event_id: about.number,
            last_event_id: about.number,
            last_event_type: event_type.clone(),
            last_payload_ref: None,
            object_id,
            object_key: key,
            object_type,
            payload_refs: Vec::new(),
            status: EventStatus::Unknown.into(),
            version: 0,
        });
    entry.event_count = entry.event_count.saturating_add(1);
    entry.last_event_id = about.number;
    entry.last_event_type = event_type.clone();
    let change = change(event_type.as_str());
    if change == Some(Change::Removed) {
        entry.deleted_event_id = Some(about.number);
    }
    entry.status = match (about.status(), change) {
        (StatusName::None, Some(Change::Removed)) => EventStatus::Deleted.into(),
        (StatusName::None, Some(Change::Written)) => EventStatus::Active.into(),
        (StatusName::None, None) => entry.status.clone(),
        (said, _) => said.clone(),
    };
    entry.version = version(about).unwrap_or(entry.event_count);
    entry.attributes = attributes(&entry.attributes, about);
    if let Some(payload) = payload {
        entry.payload_refs.push(payload.clone());
        entry.last_payload_ref = Some(payload);
    }
}

/// What the last word of an event's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Written,
    Removed,
}

fn change(name: &str) -> Option<Change> {
    match name.rsplit_once('.')?.1 {
        "created" | "updated" | "upserted" => Some(Change::Written),
        "deleted" | "removed" => Some(Change::Removed),
        _ => None,
    }
}

/// Type and id of the object, if the event is about one.
fn identity(about: &About<'_>) -> Option<(Text, Text)> {
    let object = about.meta(KIND);
    let in_object = |key: &str| object.and_then(|object| object.get(key)).and_then(text_of);
    let object_type = in_object("object_type")
        .or_else(|| in_object("type"))
        .or_else(|| about.meta_text("business_object_type"))
        .or_else(|| about.meta_text("object_type"));
    let object_id = in_object("object_id")
        .or_else(|| in_object("id"))
        .or_else(|| about.meta_text("business_object_id"))
        .or_else(|| about.meta_text("object_id"));
    let (of_aggregate, id_of_aggregate) = match about.aggregate(KIND) {
        None => (None, None),
        Some(rest) => match rest.split_once('/') {
            Some((kind, id)) => (Some(kind.into()), Some(id.into())),
            None => (Some(KIND.into()), Some(rest)),
        },
    };
    Some((
        object_type.or(of_aggregate)?,
        object_id.or(id_of_aggregate)?,
    ))
}

fn version(about: &About<'_>) -> Option<i64> {
    let object = about.meta(KIND).and_then(|object| object.get("version"));
    object
        .and_then(number_of)
        .or_else(|| about.meta_number("version"))
}

/// What is known of the object after an event: a state replaces all, the rest is laid over it.
fn attributes(before: &Json, about: &About<'_>) -> Json {
    let told = |key: &str| told(about, key).and_then(Json::as_map);
    let state = told("state");
    let changes = [told("patch"), told("attributes")];
    if state.is_none() && changes.iter().all(Option::is_none) {
        return before.clone();
    }
    let mut known = match (state, before) {
        (Some(state), _) => state.clone(),
        (None, Json::Map(map)) => map.as_ref().clone(),
        (None, _) => noetl_types::JsonMap::new(),
    };
    for change in changes.into_iter().flatten() {
        known.extend(
            change
                .iter()
                .map(|(key, value)| (Arc::clone(key), value.clone())),
        );
    }
    Json::from(known)
}

/// Where an event tells of its object: beside its identity, else in what came out, else in what it
/// was done with.
fn told<'e>(about: &About<'e>, key: &str) -> Option<&'e Json> {
    about
        .meta(KIND)
        .and_then(|object| object.get(key))
        .or_else(|| about.outcome(key))
        .or_else(|| about.record.event.context.as_ref()?.get(key))
}
