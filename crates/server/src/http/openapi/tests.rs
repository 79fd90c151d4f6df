//! The document is what the routes are, and the server shows it.

use std::path::Path;

use serde_json::Value;

use super::{document, page};

#[test]
fn the_document_says_what_the_routes_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = document::text();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/openapi.json is not up to date: UPDATE_DOCS=1 cargo test -p noetl-server openapi"
    );
}

/// Whatever is referred to is there, so that no reader stumbles.
#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    let pointer = to.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{to}");
                }
                fields.values().for_each(|value| walk(value, document));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, document)),
            _ => {}
        }
    }
    let document = document::document();
    walk(&document, &document);
}

#[test]
fn the_page_shows_every_operation_and_nothing_from_elsewhere() {
    let document = document::document();
    let page = page::page(&document);
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            operations += 1;
        }
        assert!(page.contains(path.as_str()), "{path}");
    }
    assert!(operations > 90, "{operations}");
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    for foreign in ["<script", "src=", "http://", "https://", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
