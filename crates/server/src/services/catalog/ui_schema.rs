//! Schema of the input form of a playbook.

use noetl_api::catalog::{CatalogResourceRequest, UiField, UiSchema};
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::{Json, JsonMap, Text};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Catalog;

impl Catalog {
    /// Derives the input form of a playbook from its workload.
    pub async fn ui_schema(
        &self,
        ctx: &CallContext,
        request: CatalogResourceRequest,
    ) -> Result<UiSchema> {
        let item = self.catalog_item(ctx, request).await?;
        let checked = check(&item.content, &CheckOptions::default());
        let Some(Document::Playbook(playbook)) = checked.document else {
            return Err(RuntimeError::invalid("only a document of kind Playbook has an input"));
        };
        let metadata = &playbook.metadata;
        let hints = metadata.more.get("ui").and_then(Json::as_map);
        let exposed = hints
            .and_then(|hints| hints.get("exposed"))
            .or_else(|| metadata.more.get("exposed_in_ui"));
        let fields = playbook.workload.0.iter();
        let fields = fields.map(|entry| {
            let name = &*entry.name.value;
            let hint = hints.and_then(|hints| hints.get("fields")?.get(name));
            to_ui_field(name, entry.value.to_source_json(), hint)
        });
        Ok(UiSchema {
            path: item.path,
            version: item.version,
            kind: item.kind,
            title: Text::from(&*metadata.name),
            description_markdown: metadata.description.as_deref().map(Text::from),
            exposed_in_ui: exposed.and_then(Json::as_bool).unwrap_or(true),
            fields: fields.collect(),
            generated_at: self.infra.now(),
        })
    }
}

/// Converts a workload value and its hints in `metadata.ui.fields` to a form field.
fn to_ui_field(name: &str, default: Json, hint: Option<&Json>) -> UiField {
    let hint_value = |key: &str| hint.and_then(|hint| hint.get(key));
    let text = |key: &str| hint_value(key).and_then(Json::as_str).map(Text::from);
    let children = default.as_map().map(child_fields).unwrap_or_default();
    UiField {
        name: name.into(),
        kind: text("kind").unwrap_or_else(|| ui_field_kind(&default).into()),
        description: text("description"),
        secret: hint_value("secret").and_then(Json::as_bool).unwrap_or(false),
        credential_glob: text("credential_glob"),
        options: hint_value("options").and_then(Json::as_list).map(<[Json]>::to_vec),
        children,
        default,
    }
}

fn child_fields(map: &JsonMap) -> Vec<UiField> {
    let parts = map.iter();
    parts.map(|(name, part)| to_ui_field(name, part.clone(), None)).collect()
}

fn ui_field_kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "any",
        Json::Bool(_) => "boolean",
        Json::Str(_) => "string",
        Json::List(_) => "array",
        Json::Map(_) => "object",
        _ => "number",
    }
}
