//! Folds events of any name into the domain objects that they describe.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::replay::{BusinessObjectEntry, PayloadRef};
use noetl_types::{EventStatus, Json, StatusName, Text};

use super::folded_event::{FoldedEvent, Key};

/// Aggregate type of such events, and default type of an object.
const AGGREGATE_TYPE: &str = "business_object";

pub(super) fn fold_business_object(
    objects: &mut BTreeMap<Text, BusinessObjectEntry>,
    view: &FoldedEvent<'_>,
    payload: Option<PayloadRef>,
) -> Result<(), InvalidJson> {
    let object = ObjectFields::from_event(view)?;
    let Some((object_type, object_id)) = object_identity(&object, view) else {
        return Ok(());
    };
    let key = format!("{object_type}/{object_id}");
    let event_type = view.event.event_type;
    let entry = match objects.get_mut(&*key) {
        Some(entry) => entry,
        None => objects.entry(key.into()).or_insert_with_key(|key| {
            let (object_type, object_id) = (&*object_type, &*object_id);
            BusinessObjectEntry {
                attributes: Json::empty_map(),
                deleted_event_id: None,
                event_count: 0,
                first_event_id: view.number,
                last_event_id: view.number,
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
    entry.last_event_id = view.number;
    if entry.last_event_type != *event_type {
        entry.last_event_type = event_type.clone();
    }
    let change = object_change(event_type.as_str());
    if change == Some(ObjectChange::Removed) {
        entry.deleted_event_id = Some(view.number);
    }
    match (view.status(), change) {
        (StatusName::None, Some(ObjectChange::Removed)) => {
            entry.status = EventStatus::Deleted.into();
        }
        (StatusName::None, Some(ObjectChange::Written)) => {
            entry.status = EventStatus::Active.into();
        }
        (StatusName::None, None) => {}
        (status, _) => entry.status = status.clone(),
    }
    let version = object.version.and_then(JsonRef::as_count);
    let version = version.or_else(|| view.meta_number(Key::Version));
    entry.version = version.unwrap_or(entry.event_count);
    update_attributes(&mut entry.attributes, &object, view)?;
    if let Some(payload) = payload {
        entry.payload_refs.push(payload.clone());
        entry.last_payload_ref = Some(payload);
    }
    Ok(())
}

/// Object fields in the metadata of an event.
#[derive(Default)]
struct ObjectFields<'e> {
    object_type: Option<JsonRef<'e>>,
    r#type: Option<JsonRef<'e>>,
    object_id: Option<JsonRef<'e>>,
    id: Option<JsonRef<'e>>,
    version: Option<JsonRef<'e>>,
    state: Option<JsonRef<'e>>,
    patch: Option<JsonRef<'e>>,
    attributes: Option<JsonRef<'e>>,
}

impl<'e> ObjectFields<'e> {
    fn from_event(view: &FoldedEvent<'e>) -> Result<Self, InvalidJson> {
        let mut object = Self::default();
        if let Some(fields) = view.meta(Key::BusinessObject) {
            fields.for_each_field(|name, value| {
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

/// Change indicated by the last segment of an event name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectChange {
    Written,
    Removed,
}

fn object_change(name: &str) -> Option<ObjectChange> {
    match name.rsplit_once('.')?.1 {
        "created" | "updated" | "upserted" => Some(ObjectChange::Written),
        "deleted" | "removed" => Some(ObjectChange::Removed),
        _ => None,
    }
}

/// Returns type and id of the object, if the event has one.
fn object_identity<'e>(
    object: &ObjectFields<'e>,
    view: &FoldedEvent<'e>,
) -> Option<(Cow<'e, str>, Cow<'e, str>)> {
    let object_type = object
        .object_type
        .and_then(JsonRef::as_name_or_id)
        .or_else(|| object.r#type.and_then(JsonRef::as_name_or_id))
        .or_else(|| view.meta_name_or_id(Key::BusinessObjectType))
        .or_else(|| view.meta_name_or_id(Key::ObjectType));
    let object_id = object
        .object_id
        .and_then(JsonRef::as_name_or_id)
        .or_else(|| object.id.and_then(JsonRef::as_name_or_id))
        .or_else(|| view.meta_name_or_id(Key::BusinessObjectId))
        .or_else(|| view.meta_name_or_id(Key::ObjectId));
    let (aggregate_type, aggregate_id) = match view.aggregate_id(AGGREGATE_TYPE) {
        None => (None, None),
        Some(rest) => match rest.split_once('/') {
            Some((kind, id)) => (Some(kind), Some(id)),
            None => (Some(AGGREGATE_TYPE), Some(rest)),
        },
    };
    Some((
        object_type.or(aggregate_type.map(Cow::Borrowed))?,
        object_id.or(aggregate_id.map(Cow::Borrowed))?,
    ))
}

/// Updates the attributes of an object: a state replaces all, a patch is merged.
fn update_attributes(
    attributes: &mut Json,
    object: &ObjectFields<'_>,
    view: &FoldedEvent<'_>,
) -> Result<(), InvalidJson> {
    if let Some(state) = find_object_map(object.state, "state", view)? {
        *attributes = state.to_json()?;
    }
    for (in_meta, key) in [(object.patch, "patch"), (object.attributes, "attributes")] {
        if let Some(change) = find_object_map(in_meta, key, view)? {
            merge_fields(attributes, change)?;
        }
    }
    Ok(())
}

fn merge_fields(attributes: &mut Json, change: JsonRef<'_>) -> Result<(), InvalidJson> {
    let mut map = match std::mem::take(attributes) {
        Json::Map(map) => map,
        _ => Arc::default(),
    };
    // Only snapshots that are being taken share it.
    let fields = Arc::make_mut(&mut map);
    let mut read = Ok(());
    let visited = change.for_each_field(|key, value| match value.to_json() {
        Ok(value) => match fields.get_mut(key) {
            Some(existing) => *existing = value,
            None => drop(fields.insert(key.into(), value)),
        },
        Err(error) => read = Err(error),
    });
    *attributes = Json::Map(map);
    visited.and(read)
}

/// Finds a map of object fields: in the metadata, else in the outcome, else in the context.
fn find_object_map<'e>(
    in_meta: Option<JsonRef<'e>>,
    key: &str,
    view: &FoldedEvent<'e>,
) -> Result<Option<JsonRef<'e>>, InvalidJson> {
    let mut found = in_meta;
    if found.is_none() {
        found = view.outcome(key)?;
    }
    if let (None, Some(context)) = (found, view.event.context) {
        found = context.get(key)?;
    }
    Ok(found.filter(|value| value.is_map()))
}
