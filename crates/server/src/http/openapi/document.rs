//! Makes the document out of routes, types and words.

use std::collections::{BTreeMap, BTreeSet};

use noetl_api::Problem;
use noetl_types::{CatalogId, ErrorCode, EventId, ExecutionId, Scope, Seq, TokenId};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::operations::{self, Operation, Tag};
use crate::http::access::Access;
use crate::http::routes::{Declared, table};
use crate::http::tests::METHODS;

const ABOUT: &str = "The control plane of NoETL. Bodies are JSON, times are RFC 3339 in UTC, and ids \
    are texts in answers and either texts or numbers in requests. What lies under `/api/` is found \
    under `/noetl/` too. Every answer names its request in `X-Request-Id`.\n\nA failure is a problem \
    document (RFC 9457) with a `code`. `rate_limited`, `quota`, `in_flight` and what comes with 503 \
    name in `Retry-After` when to ask again.";

const KEY: &str = "Under the same key a request has its effect once: the same body gives the same \
    answer again, another body is refused as `idempotency_mismatch`.";

const REPLAYED: &str = "`true` where this is the answer of an earlier request of the same key.";

/// Where schemas are kept.
const SCHEMAS: &str = "#/components/schemas/";

/// The document, as it is written down.
pub(super) fn text() -> String {
    let mut text = Vec::new();
    let form = PrettyFormatter::with_indent(b" ");
    let mut writer = Serializer::with_formatter(&mut text, form);
    document().serialize(&mut writer).unwrap();
    text.push(b'\n');
    String::from_utf8(text).unwrap()
}

pub(super) fn document() -> Value {
    let mut makers = Makers::new();
    let mut paths = Map::new();
    for (operation, route) in described() {
        let path = operation.path.unwrap_or(operation.route);
        let path = path.replace("{*", "{");
        let method = operation.method.as_str().to_ascii_lowercase();
        let made = makers.operation(&operation, &route, &path);
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item.as_object_mut().unwrap().insert(method, made);
    }
    let tags = Tag::ALL.map(Tag::words);
    let tags: Vec<Value> = tags
        .iter()
        .map(|(name, about)| json!({ "name": name, "description": about }))
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "NoETL",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{ "url": "/", "description": "The server that this document comes from" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": schemes(),
            "responses": problems(),
            "schemas": makers.finish(),
        },
    });
    tidy(&mut document);
    document
}

/// Every operation with its route; those that only fail need no words.
fn described() -> Vec<(Operation, Declared)> {
    let mut routes: BTreeMap<(String, String), Declared> = BTreeMap::new();
    for declared in table() {
        for (filter, method) in METHODS {
            if declared.methods.or(filter) == declared.methods {
                let key = (declared.path.clone(), method.to_string());
                routes.insert(key, declared.clone());
            }
        }
    }
    let mut used = BTreeSet::new();
    let mut described = Vec::new();
    for operation in operations::all() {
        let key = (operation.route.to_owned(), operation.method.to_string());
        let (method, route) = (&operation.method, operation.route);
        let declared = routes.get(&key);
        let declared = declared.unwrap_or_else(|| panic!("there is no route `{method} {route}`"));
        described.push((operation, declared.clone()));
        used.insert(key);
    }
    for (key, declared) in &routes {
        if declared.shape.only_fails && !used.contains(key) {
            described.push((operations::not_supported(&key.1, &key.0), declared.clone()));
        } else {
            assert!(
                used.contains(key),
                "`{} {}` is not described: say in http/openapi/operations what it is",
                key.1,
                key.0
            );
        }
    }
    described
}

/// What makes schemas: answers say more than requests have to.
struct Makers {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    ids: BTreeSet<String>,
}

impl Makers {
    fn new() -> Self {
        let maker = |contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        let mut answers = maker(Contract::Serialize);
        answers.subschema_for::<Problem>();
        Self {
            requests: maker(Contract::Deserialize),
            answers,
            ids: BTreeSet::new(),
        }
    }

    fn operation(&mut self, operation: &Operation, route: &Declared, path: &str) -> Value {
        let id = operation.id.to_owned();
        assert!(
            self.ids.insert(id.clone()),
            "two operations are called {id}"
        );
        assert!(
            operation.query.is_none() || route.shape.has_query,
            "{id} has no parameters"
        );
        assert!(
            operation.query.is_some() || !route.shape.has_query,
            "{id} does not say which parameters it has"
        );
        let mut made = json!({
            "operationId": id,
            "tags": [operation.tag.words().0],
            "summary": operation.summary,
        });
        let fields = made.as_object_mut().unwrap();
        if !operation.details.is_empty() {
            fields.insert("description".into(), operation.details.into());
        }
        if operation.is_deprecated {
            fields.insert("deprecated".into(), true.into());
        }
        fields.insert("security".into(), security(route.access));
        let parameters = self.parameters(operation, path);
        if !parameters.is_empty() {
            fields.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = self.body(operation, route) {
            fields.insert("requestBody".into(), body);
        }
        fields.insert(
            "responses".into(),
            self.responses(operation, route, path).into(),
        );
        made
    }

    fn parameters(&mut self, operation: &Operation, path: &str) -> Vec<Value> {
        let mut parameters = Vec::new();
        for part in path.split('{').skip(1) {
            let name = part.split('}').next().unwrap();
            parameters.push(path_parameter(&mut self.answers, name));
        }
        if let Some(query) = operation.query {
            let schema = query(&mut self.answers).to_value();
            let fields = schema["properties"].as_object().cloned();
            for (name, mut schema) in fields.unwrap_or_default() {
                let about = schema.as_object_mut().unwrap().remove("description");
                let is_needed = operation.needs.contains(&name.as_str());
                let mut parameter = json!({
                    "name": name,
                    "in": "query",
                    "required": is_needed,
                    "description": about,
                    "schema": without_null(schema),
                });
                // One without a value is as good as none.
                if !is_needed {
                    parameter["allowEmptyValue"] = true.into();
                }
                parameters.push(parameter);
            }
        }
        if !operation.only_reads && operation.tag != Tag::NotSupported {
            parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "required": false,
                "description": KEY,
                "schema": { "type": "string" },
            }));
        }
        parameters
    }

    fn body(&mut self, operation: &Operation, route: &Declared) -> Option<Value> {
        let (make, is_required) = route.shape.body?;
        let schema = make(&mut self.requests);
        let mut content = json!({ "schema": schema });
        if let Some(example) = &operation.example {
            content["example"] = example.clone();
        }
        Some(json!({ "required": is_required, "content": { "application/json": content } }))
    }

    fn responses(
        &mut self,
        operation: &Operation,
        route: &Declared,
        path: &str,
    ) -> Map<String, Value> {
        let id = operation.id;
        let told = (route.shape.answer, operation.answer);
        let make = match told {
            (Some(make), None) | (None, Some(make)) => Some(make),
            (None, None) if route.shape.only_fails => None,
            (None, None) => panic!("nobody says what {id} answers"),
            (Some(_), Some(_)) => panic!("the handler of {id} says itself what it answers"),
        };
        let mut responses = BTreeMap::new();
        if let Some(make) = make {
            let schema = make(&mut self.answers);
            let content: Map<String, Value> = (operation.media_types.iter())
                .map(|media| ((*media).to_owned(), json!({ "schema": schema })))
                .collect();
            let mut answer = json!({ "description": operation.summary, "content": content });
            let mut headers = Map::new();
            let replayed = (!operation.only_reads).then_some(("Idempotency-Replayed", REPLAYED));
            for (name, about) in operation.headers.iter().chain(&replayed) {
                let header = json!({ "description": about, "schema": { "type": "string" } });
                headers.insert((*name).to_owned(), header);
            }
            if !headers.is_empty() {
                answer["headers"] = headers.into();
            }
            responses.insert(200, answer.clone());
            responses.extend(operation.also.map(|status| (status, answer)));
        }
        for status in statuses(operation, route, path) {
            let problem = json!({ "$ref": format!("#/components/responses/Problem{status}") });
            responses.entry(status).or_insert(problem);
        }
        let named = |(status, answer): (u16, Value)| (status.to_string(), answer);
        responses.into_iter().map(named).collect()
    }

    /// All schemas.
    fn finish(mut self) -> Value {
        let mut schemas = self.answers.take_definitions(true);
        for (name, schema) in self.requests.take_definitions(true) {
            let other = schemas.insert(name.clone(), schema.clone());
            assert!(
                other.is_none_or(|other| other == schema),
                "requests and answers disagree about {name}: give each a type of its own"
            );
        }
        let sorted: BTreeMap<String, Value> = schemas.into_iter().collect();
        json!(sorted)
    }
}

/// Texts that link to code are read by people who do not have it.
fn tidy(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("[`") => {
            let mut plain = String::new();
            let mut rest = text.as_str();
            while let Some((before, behind)) = rest.split_once("[`") {
                let (link, behind) = behind.split_once("`]").unwrap_or((behind, ""));
                let name = link.rsplit("::").next().unwrap_or(link);
                plain.push_str(before);
                plain.push_str(&format!("`{name}`"));
                rest = behind;
            }
            plain.push_str(rest);
            *text = plain;
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(fields) => fields.values_mut().for_each(tidy),
        _ => {}
    }
}

fn some_text() -> Schema {
    json_schema!({ "type": "string", "minLength": 1 })
}

fn path_parameter(maker: &mut SchemaGenerator, name: &str) -> Value {
    let (schema, about) = match name {
        "execution_id" => (ExecutionId::json_schema(maker), "The run."),
        "event_id" => (EventId::json_schema(maker), "The event."),
        "token_id" => (TokenId::json_schema(maker), "The token."),
        "seq" => (
            Seq::json_schema(maker),
            "The place of the event in the run.",
        ),
        "catalog_id" => (CatalogId::json_schema(maker), "The definition."),
        "path" => (some_text(), "The path of the definition."),
        "playbook_id" => (some_text(), "A path, or a catalog id."),
        "credential" => (some_text(), "Its id or its name."),
        "kind" => (some_text(), "The kind of document, such as `playbook`."),
        "document" => (
            some_text(),
            "The kind of document, such as `playbook.json`.",
        ),
        _ => (some_text(), "A name."),
    };
    json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema })
}

/// A parameter is there or not; it is never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array() {
        let mut types = types.iter().filter(|name| *name != "null");
        let first = types.next().cloned().unwrap();
        schema["type"] = first;
    }
    let others = schema.get("anyOf").and_then(Value::as_array);
    if let Some(others) = others {
        let mut others = others.iter().filter(|other| other["type"] != "null");
        return others.next().cloned().unwrap();
    }
    schema
}

fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Identity => json!([{ "token": [] }]),
        Access::AnyOf(scopes) => scopes
            .iter()
            .map(|scope| json!({ "token": [scope.as_str()] }))
            .collect(),
        Access::Internal(scope) => {
            json!([{ "internal": [] }, { "token": [scope.as_str()] }])
        }
    }
}

fn schemes() -> Value {
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let about = format!(
        "A token (`noetl token create`), also as the password of Basic. The names beside it are the \
         scopes that open an operation, any of which will do: {}.",
        scopes.join(", ")
    );
    json!({
        "token": { "type": "http", "scheme": "bearer", "description": about },
        "internal": {
            "type": "http",
            "scheme": "bearer",
            "description": "The value of `NOETL_INTERNAL_API_TOKEN`.",
        },
    })
}

/// The statuses of what an operation may fail with.
fn statuses(operation: &Operation, route: &Declared, path: &str) -> BTreeSet<u16> {
    use ErrorCode::{
        BadQuery, Forbidden, IdempotencyMismatch, InFlight, Internal, NotFound, NotReady,
        NotSupported, RateLimited, RetentionDropped, Timeout, TooLarge, Unauthenticated,
        UnsupportedMedia, Validation,
    };
    let mut codes: Vec<ErrorCode> = operation.fails.to_vec();
    let mut statuses = BTreeSet::new();
    if !matches!(route.access, Access::Open) {
        codes.extend([Unauthenticated, Forbidden, RateLimited]);
    }
    if route.shape.only_fails {
        codes.push(NotSupported);
        statuses.extend(codes.iter().map(|code| code.status()));
        return statuses;
    }
    codes.extend([Internal, NotReady, Timeout]);
    if path.contains('{') {
        codes.extend([BadQuery, NotFound]);
    }
    if path.contains("{execution_id}") {
        codes.push(RetentionDropped);
    }
    if route.shape.has_query {
        codes.push(BadQuery);
    }
    if route.shape.body.is_some() {
        codes.extend([BadQuery, TooLarge, UnsupportedMedia, Validation]);
        // A client that takes too long.
        statuses.insert(408);
    }
    if !operation.only_reads {
        codes.extend([InFlight, IdempotencyMismatch]);
    }
    if matches!(route.access, Access::Open) {
        codes.clear();
    }
    statuses.extend(codes.iter().map(|code| code.status()));
    statuses
}

/// An answer for each status that failures have, with the codes that come with it.
fn problems() -> Value {
    let mut codes: BTreeMap<u16, Vec<ErrorCode>> =
        BTreeMap::from([(408, vec![ErrorCode::Timeout])]);
    for code in ErrorCode::ALL {
        codes.entry(code.status()).or_default().push(*code);
    }
    let mut problems = Map::new();
    for (status, codes) in codes {
        let told: Vec<String> = (codes.iter())
            .map(|code| format!("`{}` ({})", code.as_str(), code.title()))
            .collect();
        let mut problem = json!({
            "description": told.join(", "),
            "content": {
                "application/problem+json": {
                    "schema": { "$ref": format!("{SCHEMAS}Problem") },
                },
            },
        });
        if codes.iter().any(|code| code.wants_retry_after()) {
            problem["headers"] = json!({
                "Retry-After": {
                    "description": "Seconds after which the request may be made again.",
                    "schema": { "type": "string" },
                },
            });
        }
        problems.insert(format!("Problem{status}"), problem);
    }
    problems.into()
}
