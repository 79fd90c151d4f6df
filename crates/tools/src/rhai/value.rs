//! Conversion between JSON and script values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::Json;
use rhai::{Array, Blob, Dynamic, FLOAT, INT, Map};

/// Converts JSON to a script value. Integers outside the range of the language become floats.
pub(super) fn to_dynamic(value: &Json) -> Dynamic {
    match value {
        Json::Null => Dynamic::UNIT,
        Json::Bool(value) => Dynamic::from(*value),
        Json::Int(number) => Dynamic::from(*number),
        Json::UInt(_) | Json::Float(_) => Dynamic::from(value.as_f64().unwrap_or_default()),
        Json::Str(text) => Dynamic::from(text.to_string()),
        Json::List(items) => Dynamic::from(items.iter().map(to_dynamic).collect::<Array>()),
        Json::Map(entries) => {
            let entries = entries.iter();
            let map: Map =
                entries.map(|(key, value)| ((&**key).into(), to_dynamic(value))).collect();
            Dynamic::from(map)
        }
    }
}

/// Converts a script value to JSON. A value that JSON lacks becomes the text that the script would
/// print.
pub(super) fn from_dynamic(value: &Dynamic) -> Json {
    if value.is_unit() {
        return Json::Null;
    }
    if let Ok(value) = value.as_bool() {
        return Json::from(value);
    }
    if let Some(number) = value.clone().try_cast::<INT>() {
        return Json::from(number);
    }
    if let Some(number) = value.clone().try_cast::<FLOAT>() {
        return Json::from_f64(number).unwrap_or_else(|_| Json::from(number.to_string()));
    }
    if let Some(items) = value.read_lock::<Array>() {
        return Json::list(items.iter().map(from_dynamic));
    }
    if let Some(entries) = value.read_lock::<Map>() {
        return Json::object(
            entries.iter().map(|(key, value)| (key.as_str(), from_dynamic(value))),
        );
    }
    if let Some(bytes) = value.read_lock::<Blob>() {
        return Json::from(STANDARD.encode(&*bytes));
    }
    Json::from(value.to_string())
}
