//! Business objects: things of a domain that events of any name are about.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::json::{JsonRef, NoJson};
use noetl_types::replay::{BusinessObjectEntry, PayloadRef};
use noetl_types::{EventStatus, Json, StatusName, Text};

use super::about::About;
use super::meta::Key;

/// The aggregate type of such events, and the type of an object that names none.
const KIND: &str = "business_object";

pub(super) fn fold(
    objects: &mut BTreeMap<Text, BusinessObjectEntry>,
    about: &About<'_>,
    payload: Option<PayloadRef>,
) -> Result<(), NoJson> {
    let object = Told::of(about)?;
    let Some((object_type, object_id)) = identity(&object, about) else {
        return Ok(());
    };
    let key = format!("{object_type}/{object_id}");
    let event_type = about.event.event_type;
    let entry = match objects.get_mut(&*key) {
        Some(entry) => entry,
        None => objects.entry(key.into()).or_insert_with_key(|key| {
            let (object_type, object_id) = (&*object_type, &*object_id);
            BusinessObjectEntry {
                attributes: Json::empty_map(),
                deleted_event_id: None,
                event_count: 0,
                first_event_id: about.number,
                last_event_id: about.number,
                last_event_type: event_type.clone(),
                last_payload_ref: None,
                object_id: object_id.into(),
                object_key: key.clone(),
                object_type: object_type.into(),
                payload_refs: Vec::new(),
                status: EventStatus::Unknown.into(),
                version: 0,
            }
        }),
    };
    entry.event_count = entry.event_count.saturating_add(1);
    entry.last_event_id = about.number;
    if entry.last_event_type != *event_type {
        entry.last_event_type = event_type.clone();
    }
    let change = change(event_type.as_str());
    if change == Some(Change::Removed) {
        entry.deleted_event_id = Some(about.number);
    }
    match (about.status(), change) {
        (StatusName::None, Some(Change::Removed)) => entry.status = EventStatus::Deleted.into(),
        (StatusName::None, Some(Change::Written)) => entry.status = EventStatus::Active.into(),
        (StatusName::None, None) => {}
        (said, _) => entry.status = said.clone(),
    }
    let version = object.version.and_then(JsonRef::number);
    let version = version.or_else(|| about.meta_number(Key::Version));
    entry.version = version.unwrap_or(entry.event_count);
    learn(&mut entry.attributes, &object, about)?;
    if let Some(payload) = payload {
        entry.payload_refs.push(payload.clone());
        entry.last_payload_ref = Some(payload);
    }
    Ok(())
}

/// What the meta data says of the object.
#[derive(Default)]
struct Told<'e> {
    object_type: Option<JsonRef<'e>>,
    r#type: Option<JsonRef<'e>>,
    object_id: Option<JsonRef<'e>>,
    id: Option<JsonRef<'e>>,
    version: Option<JsonRef<'e>>,
    state: Option<JsonRef<'e>>,
    patch: Option<JsonRef<'e>>,
    attributes: Option<JsonRef<'e>>,
}

impl<'e> Told<'e> {
    fn of(about: &About<'e>) -> Result<Self, NoJson> {
        let mut object = Self::default();
        if let Some(said) = about.meta(Key::BusinessObject) {
            said.fields(|name, value| {
                let field = match name {
                    "object_type" => &mut object.object_type,
                    "type" => &mut object.r#type,
                    "object_id" => &mut object.object_id,
                    "id" => &mut object.id,
                    "version" => &mut object.version,
                    "state" => &mut object.state,
                    "patch" => &mut object.patch,
                    "attributes" => &mut object.attributes,
                    _ => return,
                };
                *field = Some(value);
            })?;
        }
        Ok(object)
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
fn identity<'e>(object: &Told<'e>, about: &About<'e>) -> Option<(Cow<'e, str>, Cow<'e, str>)> {
    let object_type = object
        .object_type
        .and_then(JsonRef::word)
        .or_else(|| object.r#type.and_then(JsonRef::word))
        .or_else(|| about.meta_word(Key::BusinessObjectType))
        .or_else(|| about.meta_word(Key::ObjectType));
    let object_id = object
        .object_id
        .and_then(JsonRef::word)
        .or_else(|| object.id.and_then(JsonRef::word))
        .or_else(|| about.meta_word(Key::BusinessObjectId))
        .or_else(|| about.meta_word(Key::ObjectId));
    let (of_aggregate, id_of_aggregate) = match about.aggregate(KIND) {
        None => (None, None),
        Some(rest) => match rest.split_once('/') {
            Some((kind, id)) => (Some(kind), Some(id)),
            None => (Some(KIND), Some(rest)),
        },
    };
    Some((
        object_type.or(of_aggregate.map(Cow::Borrowed))?,
        object_id.or(id_of_aggregate.map(Cow::Borrowed))?,
    ))
}

/// What is known of the object after an event: a state replaces all, the rest is laid over it.
fn learn(known: &mut Json, object: &Told<'_>, about: &About<'_>) -> Result<(), NoJson> {
    if let Some(state) = told(object.state, "state", about)? {
        *known = state.to_json()?;
    }
    for (beside, key) in [(object.patch, "patch"), (object.attributes, "attributes")] {
        if let Some(change) = told(beside, key, about)? {
            lay_over(known, change)?;
        }
    }
    Ok(())
}

fn lay_over(known: &mut Json, change: JsonRef<'_>) -> Result<(), NoJson> {
    let mut map = match std::mem::take(known) {
        Json::Map(map) => map,
        _ => Arc::default(),
    };
    // Nobody else has it but snapshots that are being taken.
    let fields = Arc::make_mut(&mut map);
    let mut read = Ok(());
    let walked = change.fields(|key, value| match value.to_json() {
        Ok(value) => match fields.get_mut(key) {
            Some(there) => *there = value,
            None => drop(fields.insert(key.into(), value)),
        },
        Err(error) => read = Err(error),
    });
    *known = Json::Map(map);
    walked.and(read)
}

/// An object that tells of the event's: beside its identity, else in what came out, else in what it was
/// done with.
fn told<'e>(
    beside: Option<JsonRef<'e>>,
    key: &str,
    about: &About<'e>,
) -> Result<Option<JsonRef<'e>>, NoJson> {
    let mut found = beside;
    if found.is_none() {
        found = about.outcome(key)?;
    }
    if let (None, Some(context)) = (found, about.event.context) {
        found = context.get(key)?;
    }
    Ok(found.filter(|said| said.is_map()))
}
