//! The OpenAPI document matches the routes, and its page shows it.

mod catalog;
mod document;
mod operations;
mod platform;
mod queries;
mod runs;
pub(in crate::http) mod shape;
mod workers;

use std::path::Path;

use serde_json::Value;

use crate::http::openapi_page::render_page;

#[test]
fn openapi_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = document::document_text();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "docs/openapi.json is not up to date: UPDATE_DOCS=1 cargo test -p noetl-server openapi"
    );
}

#[test]
fn all_references_resolve() {
    fn check_references(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                fields.values().for_each(|value| check_references(value, document));
            }
            Value::Array(items) => items.iter().for_each(|value| check_references(value, document)),
            _ => {}
        }
    }
    let document = document::build_document();
    check_references(&document, &document);
}

#[test]
fn page_lists_every_operation_without_external_resources() {
    let document = document::build_document();
    let page = render_page(&document);
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            operations += 1;
        }
        assert!(page.contains(path.as_str()), "{path}");
    }
    assert!(operations > 80, "{operations}");
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    for external in ["<script", "src=", "http://", "https://", "url("] {
        assert!(!page.contains(external), "{external}");
    }
}
