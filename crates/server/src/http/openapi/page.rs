//! The document as a page: one piece of HTML, without scripts and without anything from elsewhere.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::DOCUMENT;

/// The page. It is written when somebody asks for it first.
pub(in crate::http) static PAGE: LazyLock<String> = LazyLock::new(|| {
    // The document is this program's own, and a test reads it.
    let document = serde_json::from_str(DOCUMENT).unwrap_or_default();
    page(&document)
});

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>NoETL: the HTTP API</title>\
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

pub(super) fn page(document: &Value) -> String {
    let mut page = HEAD.to_owned();
    let info = &document["info"];
    // Which version it is, is for those who show a token: whoever looks for old ones reads this page too.
    let _ = write!(page, "<h1>{}</h1>", text(&info["title"]));
    for part in info["description"]
        .as_str()
        .unwrap_or_default()
        .split("\n\n")
    {
        let _ = write!(page, "<p>{}</p>", marked(part));
    }
    page.push_str("<p>For programs: <a href=\"openapi.json\">openapi.json</a></p><nav>");
    let tags: Vec<&Value> = document["tags"].as_array().into_iter().flatten().collect();
    for tag in &tags {
        let name = text(&tag["name"]);
        let _ = write!(page, "<a href=\"#tag-{}\">{name}</a>", slug(&name));
    }
    page.push_str("<a href=\"#problems\">Problems</a><a href=\"#schemas\">Schemas</a></nav>\n");
    for tag in tags {
        chapter(&mut page, document, tag);
    }
    problems(&mut page, &document["components"]["responses"]);
    schemas(&mut page, &document["components"]["schemas"]);
    page.push_str("</body></html>\n");
    page
}

fn chapter(page: &mut String, document: &Value, tag: &Value) {
    let name = text(&tag["name"]);
    let about = marked(tag["description"].as_str().unwrap_or_default());
    let _ = writeln!(
        page,
        "<h2 id=\"tag-{}\">{name}</h2><p>{about}</p>",
        slug(&name)
    );
    for (path, item) in fields(&document["paths"]) {
        for (method, operation) in fields(item) {
            if operation["tags"][0] == tag["name"] {
                shown(page, path, method, operation);
            }
        }
    }
}

fn shown(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details id=\"{}\"><summary><span class=\"method\">{}</span><code>{}</code> {}</summary>",
        text(&operation["operationId"]),
        method.to_ascii_uppercase(),
        escaped(path),
        marked(operation["summary"].as_str().unwrap_or_default())
    );
    if let Some(about) = operation["description"].as_str() {
        let _ = write!(page, "<p>{}</p>", marked(about));
    }
    let _ = write!(
        page,
        "<p class=\"dim\">{}</p>",
        access(&operation["security"])
    );
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters {
        page.push_str("<table><tr><th>Parameter</th><th>In</th><th>Is</th><th></th></tr>");
        for parameter in parameters {
            let needed = if parameter["required"] == true {
                ", needed"
            } else {
                ""
            };
            let _ = write!(
                page,
                "<tr><td><code>{}</code></td><td>{}{needed}</td><td>{}</td><td>{}</td></tr>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                kind(&parameter["schema"]),
                marked(parameter["description"].as_str().unwrap_or_default())
            );
        }
        page.push_str("</table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        let _ = write!(page, "<p>Body: {}</p>", kind(&body["schema"]));
        if !body["example"].is_null() {
            let example = serde_json::to_string_pretty(&body["example"]).unwrap_or_default();
            let _ = write!(page, "<pre>{}</pre>", escaped(&example));
        }
    }
    page.push_str("<p>Answers:");
    for (status, answer) in fields(&operation["responses"]) {
        if let Some(problem) = answer["$ref"].as_str() {
            let name = problem.rsplit('/').next().unwrap_or_default();
            let _ = write!(page, " <a href=\"#{}\">{status}</a>", escaped(name));
        }
        for (media, content) in fields(&answer["content"]) {
            let _ = write!(
                page,
                " {status} <code>{}</code> {};",
                escaped(media),
                kind(&content["schema"])
            );
        }
    }
    page.push_str("</p></details>\n");
}

/// Who may call, in words.
fn access(security: &Value) -> String {
    let ways: Vec<String> = security
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(fields)
        .map(|(scheme, scopes)| match (scheme.as_str(), &scopes[0]) {
            ("internal", _) => "the internal token".to_owned(),
            (_, Value::String(scope)) => format!("<code>{}</code>", escaped(scope)),
            _ => "any identity".to_owned(),
        })
        .collect();
    if ways.is_empty() {
        return "Open to everybody.".to_owned();
    }
    format!("Needs {}.", ways.join(" or "))
}

fn problems(page: &mut String, problems: &Value) {
    page.push_str("<h2 id=\"problems\">Problems</h2>");
    page.push_str("<table><tr><th>Status</th><th>Codes</th></tr>");
    for (name, problem) in fields(problems) {
        let _ = write!(
            page,
            "<tr id=\"{0}\"><td>{1}</td><td>{2}</td></tr>",
            escaped(name),
            escaped(name.trim_start_matches("Problem")),
            marked(problem["description"].as_str().unwrap_or_default())
        );
    }
    page.push_str("</table>\n");
}

fn schemas(page: &mut String, schemas: &Value) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>\n");
    for (name, schema) in fields(schemas) {
        let name = escaped(name);
        let _ = write!(
            page,
            "<details id=\"schema-{name}\"><summary><code>{name}</code> {}</summary>",
            marked(schema["description"].as_str().unwrap_or_default())
        );
        let needed = schema["required"].as_array();
        let is_needed =
            |field: &str| needed.is_some_and(|names| names.iter().any(|name| name == field));
        if schema["properties"].is_null() {
            let _ = write!(page, "<p>{}</p>", kind(schema));
        } else {
            page.push_str("<table><tr><th>Field</th><th>Is</th><th></th></tr>");
            for (field, schema) in fields(&schema["properties"]) {
                let mark = if is_needed(field) {
                    ""
                } else {
                    " <span class=\"dim\">(may be absent)</span>"
                };
                let _ = write!(
                    page,
                    "<tr><td><code>{}</code>{mark}</td><td>{}</td><td>{}</td></tr>",
                    escaped(field),
                    kind(schema),
                    marked(schema["description"].as_str().unwrap_or_default())
                );
            }
            page.push_str("</table>");
        }
        page.push_str("</details>\n");
    }
}

/// What a schema allows, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(to) = schema["$ref"].as_str() {
        let name = escaped(to.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(others) = schema[key].as_array() {
            let others: Vec<String> = others.iter().map(kind).collect();
            return others.join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words
            .iter()
            .map(|word| format!("<code>{}</code>", text(word)))
            .collect();
        return words.join(" ");
    }
    if !schema["const"].is_null() {
        return format!("<code>{}</code>", text(&schema["const"]));
    }
    let mut told = match &schema["type"] {
        Value::Array(types) => {
            let types: Vec<String> = types.iter().map(text).collect();
            types.join(" or ")
        }
        Value::String(_) if schema["type"] == "array" => {
            format!("list of {}", kind(&schema["items"]))
        }
        Value::String(name) => escaped(name),
        _ => "anything".to_owned(),
    };
    if let Some(format) = schema["format"].as_str() {
        let _ = write!(told, " <span class=\"dim\">{}</span>", escaped(format));
    }
    for (key, sign) in [("minimum", "≥"), ("maximum", "≤")] {
        if !schema[key].is_null() {
            let _ = write!(told, " {sign} {}", schema[key]);
        }
    }
    told
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        other => escaped(&other.to_string()),
    }
}

fn slug(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

/// A text with its code in backticks.
fn marked(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in escaped(text).split('`').enumerate() {
        if at % 2 == 1 {
            let _ = write!(html, "<code>{part}</code>");
        } else {
            html.push_str(part);
        }
    }
    html
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
