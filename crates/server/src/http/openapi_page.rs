//! The OpenAPI document as one HTML page, without scripts and external resources.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::routes::OPENAPI_DOCUMENT;

/// The page, rendered on first use.
pub(in crate::http) static PAGE: LazyLock<String> = LazyLock::new(|| {
    // The document is embedded, and a test parses it.
    let document = serde_json::from_str(OPENAPI_DOCUMENT).unwrap_or_default();
    render_page(&document)
});

const PAGE_HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>NoETL HTTP API</title>\
<style>
:root{color-scheme:light dark;--line:#8884;--dim:#888;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font:13px ui-monospace,monospace;background:var(--soft);padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}
h2{margin-top:3rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.3rem .8rem}
summary{cursor:pointer}
.method{display:inline-block;width:4.2rem;font-weight:600}
.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}
pre{background:var(--soft);padding:.6rem;overflow:auto;border-radius:6px}
nav a{margin-right:1rem;white-space:nowrap}
</style></head><body>\n";

pub(super) fn render_page(document: &Value) -> String {
    let mut page = PAGE_HEAD.to_owned();
    let info = &document["info"];
    // The version is not shown: the page needs no authentication, and the version would help
    // attackers.
    let _ = write!(page, "<h1>{}</h1>", to_escaped_text(&info["title"]));
    for part in info["description"].as_str().unwrap_or_default().split("\n\n") {
        let _ = write!(page, "<p>{}</p>", format_code(part));
    }
    page.push_str("<p>Machine-readable: <a href=\"openapi.json\">openapi.json</a></p><nav>");
    let tags: Vec<&Value> = document["tags"].as_array().into_iter().flatten().collect();
    for tag in &tags {
        let name = to_escaped_text(&tag["name"]);
        let _ = write!(page, "<a href=\"#tag-{}\">{name}</a>", to_slug(&name));
    }
    page.push_str("<a href=\"#problems\">Problems</a><a href=\"#schemas\">Schemas</a></nav>\n");
    for tag in tags {
        render_tag(&mut page, document, tag);
    }
    render_problems(&mut page, &document["components"]["responses"]);
    render_schemas(&mut page, &document["components"]["schemas"]);
    page.push_str("</body></html>\n");
    page
}

fn render_tag(page: &mut String, document: &Value, tag: &Value) {
    let name = to_escaped_text(&tag["name"]);
    let description = format_code(tag["description"].as_str().unwrap_or_default());
    let _ = writeln!(page, "<h2 id=\"tag-{}\">{name}</h2><p>{description}</p>", to_slug(&name));
    for (path, item) in object_fields(&document["paths"]) {
        for (method, operation) in object_fields(item) {
            if operation["tags"][0] == tag["name"] {
                render_operation(page, path, method, operation);
            }
        }
    }
}

fn render_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details id=\"{}\"><summary><span class=\"method\">{}</span><code>{}</code> {}</summary>",
        to_escaped_text(&operation["operationId"]),
        method.to_ascii_uppercase(),
        escape_html(path),
        format_code(operation["summary"].as_str().unwrap_or_default())
    );
    if let Some(description) = operation["description"].as_str() {
        let _ = write!(page, "<p>{}</p>", format_code(description));
    }
    let _ = write!(page, "<p class=\"dim\">{}</p>", describe_access(&operation["security"]));
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters {
        page.push_str("<table><tr><th>Parameter</th><th>In</th><th>Type</th><th></th></tr>");
        for parameter in parameters {
            let required = if parameter["required"] == true { ", required" } else { "" };
            let _ = write!(
                page,
                "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                to_escaped_text(&parameter["name"]),
                to_escaped_text(&parameter["in"]),
                describe_type(&parameter["schema"]),
                format_code(parameter["description"].as_str().unwrap_or_default())
            );
        }
        page.push_str("</table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        let _ = write!(page, "<p>Body: {}</p>", describe_type(&body["schema"]));
        if !body["example"].is_null() {
            let example = serde_json::to_string_pretty(&body["example"]).unwrap_or_default();
            let _ = write!(page, "<pre>{}</pre>", escape_html(&example));
        }
    }
    page.push_str("<p>Responses:");
    for (status, response) in object_fields(&operation["responses"]) {
        if let Some(problem) = response["$ref"].as_str() {
            let name = problem.rsplit('/').next().unwrap_or_default();
            let _ = write!(page, " <a href=\"#{}\">{status}</a>", escape_html(name));
        }
        for (media_type, content) in object_fields(&response["content"]) {
            let _ = write!(
                page,
                " {status} <code>{}</code> {};",
                escape_html(media_type),
                describe_type(&content["schema"])
            );
        }
    }
    page.push_str("</p></details>\n");
}

/// Describes the required access.
fn describe_access(security: &Value) -> String {
    let requirements: Vec<String> = security
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(object_fields)
        .map(|(scheme, scopes)| match (scheme.as_str(), &scopes[0]) {
            ("internal", _) => "the internal token".to_owned(),
            (_, Value::String(scope)) => format!("<code>{}</code>", escape_html(scope)),
            _ => "any valid token".to_owned(),
        })
        .collect();
    if requirements.is_empty() {
        return "No authentication.".to_owned();
    }
    format!("Requires {}.", requirements.join(" or "))
}

fn render_problems(page: &mut String, problems: &Value) {
    page.push_str("<h2 id=\"problems\">Problems</h2>");
    page.push_str("<table><tr><th>Status</th><th>Codes</th></tr>");
    for (name, problem) in object_fields(problems) {
        let _ = write!(
            page,
            "<tr id=\"{0}\"><td>{1}</td><td>{2}</td></tr>",
            escape_html(name),
            escape_html(name.trim_start_matches("Problem")),
            format_code(problem["description"].as_str().unwrap_or_default())
        );
    }
    page.push_str("</table>\n");
}

fn render_schemas(page: &mut String, schemas: &Value) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>\n");
    for (name, schema) in object_fields(schemas) {
        let name = escape_html(name);
        let _ = write!(
            page,
            "<details id=\"schema-{name}\"><summary><code>{name}</code> {}</summary>",
            format_code(schema["description"].as_str().unwrap_or_default())
        );
        let required = schema["required"].as_array();
        let is_required =
            |field: &str| required.is_some_and(|names| names.iter().any(|name| name == field));
        if schema["properties"].is_null() {
            let _ = write!(page, "<p>{}</p>", describe_type(schema));
        } else {
            page.push_str("<table><tr><th>Field</th><th>Type</th><th></th></tr>");
            for (field, schema) in object_fields(&schema["properties"]) {
                let mark =
                    if is_required(field) { "" } else { " <span class=\"dim\">(optional)</span>" };
                let _ = write!(
                    page,
                    "<tr><td><code>{}</code>{mark}</td><td>{}</td><td>{}</td></tr>",
                    escape_html(field),
                    describe_type(schema),
                    format_code(schema["description"].as_str().unwrap_or_default())
                );
            }
            page.push_str("</table>");
        }
        page.push_str("</details>\n");
    }
}

/// Describes the type of a schema.
fn describe_type(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape_html(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(variants) = schema[key].as_array() {
            let variants: Vec<String> = variants.iter().map(describe_type).collect();
            return variants.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("<code>{}</code>", to_escaped_text(value))).collect();
        return values.join(" ");
    }
    if !schema["const"].is_null() {
        return format!("<code>{}</code>", to_escaped_text(&schema["const"]));
    }
    let mut description = match &schema["type"] {
        Value::Array(types) => {
            let types: Vec<String> = types.iter().map(to_escaped_text).collect();
            types.join(" or ")
        }
        Value::String(_) if schema["type"] == "array" => {
            format!("list of {}", describe_type(&schema["items"]))
        }
        Value::String(name) => escape_html(name),
        _ => "anything".to_owned(),
    };
    if let Some(format) = schema["format"].as_str() {
        let _ = write!(description, " <span class=\"dim\">{}</span>", escape_html(format));
    }
    for (key, sign) in [("minimum", "≥"), ("maximum", "≤")] {
        if !schema[key].is_null() {
            let _ = write!(description, " {sign} {}", schema[key]);
        }
    }
    description
}

fn object_fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn to_escaped_text(value: &Value) -> String {
    match value {
        Value::String(text) => escape_html(text),
        other => escape_html(&other.to_string()),
    }
}

fn to_slug(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

/// Escapes a text and formats code in backticks.
fn format_code(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in escape_html(text).split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(html, "<code>{part}</code>");
        } else {
            html.push_str(part);
        }
    }
    html
}

fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
