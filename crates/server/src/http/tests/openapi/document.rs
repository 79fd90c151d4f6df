//! Generates the OpenAPI document from routes, types and operation texts.

use std::collections::{BTreeMap, BTreeSet};

use noetl_api::Problem;
use noetl_types::{CatalogId, ErrorCode, EventId, ExecutionId, Scope, Seq, TokenId};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::operations::{self, OperationSpec, OperationTag};
use crate::http::middleware::access::{AuditPolicy, RouteAccess};
use crate::http::routes::{Route, all_routes};
use crate::http::tests::tokens::METHODS;

const DESCRIPTION: &str = "The API of the NoETL control plane. Bodies are JSON and times are RFC 3339 in UTC. Ids \
    are strings in responses, and strings or numbers in requests. Paths under `/api/` are also \
    available under `/noetl/`. Every response has the header `X-Request-Id`.\n\nErrors are problem \
    documents (RFC 9457) with a `code`. Responses with `rate_limited`, `quota_exceeded`, `in_flight` or status \
    503 have the header `Retry-After`.";

const IDEMPOTENCY_KEY_HELP: &str = "Makes the request idempotent: a repeated request with the same key and body returns the \
    first response, a different body with the same key fails with `idempotency_mismatch`.";

const REPLAYED_HELP: &str =
    "`true` if this is the stored response of an earlier request with the same key.";

const SEQ_HELP: &str = "Sequence number of the log that the response reflects: its end, or the position given by `at`.";

/// Prefix of references to schemas.
const SCHEMA_PREFIX: &str = "#/components/schemas/";

/// The document as JSON text.
pub(super) fn document_text() -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b" ");
    let mut writer = Serializer::with_formatter(&mut text, formatter);
    build_document().serialize(&mut writer).unwrap();
    text.push(b'\n');
    String::from_utf8(text).unwrap()
}

pub(super) fn build_document() -> Value {
    let mut generators = SchemaGenerators::new();
    let mut paths = Map::new();
    for (operation, route) in described_routes() {
        let path = operation.path.unwrap_or(operation.route);
        let path = path.replace("{*", "{");
        let method = operation.method.as_str().to_ascii_lowercase();
        let value = generators.build_operation(&operation, &route, &path);
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item.as_object_mut().unwrap().insert(method, value);
    }
    let tags = OperationTag::ALL.map(OperationTag::name_and_description);
    let tags: Vec<Value> = tags
        .iter()
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "NoETL",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{ "url": "/", "description": "The server that serves this document" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": security_schemes(),
            "responses": problem_responses(),
            "schemas": generators.into_schemas(),
        },
    });
    strip_doc_links(&mut document);
    document
}

/// All operations with their routes. Routes that always fail are not described.
fn described_routes() -> Vec<(OperationSpec, Route)> {
    let mut routes: BTreeMap<(String, String), Route> = BTreeMap::new();
    for declaration in all_routes() {
        for (filter, method) in METHODS {
            if declaration.methods.or(filter) == declaration.methods {
                let key = (declaration.path.to_owned(), method.to_string());
                routes.insert(key, declaration.clone());
            }
        }
    }
    let mut used = BTreeSet::new();
    let mut described = Vec::new();
    for operation in operations::all_operations() {
        let key = (operation.route.to_owned(), operation.method.to_string());
        let (method, route) = (&operation.method, operation.route);
        let declaration = routes.get(&key);
        let declaration = declaration.unwrap_or_else(|| panic!("no route `{method} {route}`"));
        described.push((operation, declaration.clone()));
        used.insert(key);
    }
    for (key, declaration) in &routes {
        assert!(
            declaration.shape.only_fails || used.contains(key),
            "`{} {}` is not described: add it to http/tests/openapi",
            key.1,
            key.0
        );
    }
    described
}

/// Schema generators. Responses and requests need separate ones: fields that are always present in
/// responses may be optional in requests.
struct SchemaGenerators {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
    operation_ids: BTreeSet<String>,
}

impl SchemaGenerators {
    fn new() -> Self {
        let new_generator = |contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        let mut responses = new_generator(Contract::Serialize);
        responses.subschema_for::<Problem>();
        Self {
            requests: new_generator(Contract::Deserialize),
            responses,
            operation_ids: BTreeSet::new(),
        }
    }

    fn build_operation(&mut self, operation: &OperationSpec, route: &Route, path: &str) -> Value {
        let id = operation.id.to_owned();
        assert!(self.operation_ids.insert(id.clone()), "operation id {id} is used twice");
        assert!(
            operation.query.is_none() || route.shape.has_query,
            "{id} lists query parameters, but its handler reads none"
        );
        assert!(
            operation.query.is_some() || !route.shape.has_query,
            "{id} does not list its query parameters"
        );
        let mut value = json!({
            "operationId": id,
            "tags": [operation.tag.name_and_description().0],
            "summary": operation.summary,
        });
        let fields = value.as_object_mut().unwrap();
        let is_audited = !matches!(route.audit_policy, AuditPolicy::Unaudited);
        let audited = is_audited.then_some("The call is audited.");
        let details = (!operation.details.is_empty()).then_some(operation.details);
        let description: Vec<&str> = details.into_iter().chain(audited).collect();
        if !description.is_empty() {
            fields.insert("description".into(), description.join(" ").into());
        }
        if operation.is_deprecated {
            fields.insert("deprecated".into(), true.into());
        }
        fields.insert("security".into(), security_requirements(route.access));
        let parameters = self.build_parameters(operation, path);
        if !parameters.is_empty() {
            fields.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = self.build_body(operation, route) {
            fields.insert("requestBody".into(), body);
        }
        fields.insert("responses".into(), self.build_responses(operation, route, path).into());
        value
    }

    fn build_parameters(&mut self, operation: &OperationSpec, path: &str) -> Vec<Value> {
        let mut parameters = Vec::new();
        for part in path.split('{').skip(1) {
            let name = part.split('}').next().unwrap();
            parameters.push(path_parameter(&mut self.responses, name));
        }
        if let Some(query) = operation.query {
            let schema = query(&mut self.responses).to_value();
            let fields = schema["properties"].as_object().cloned();
            for (name, mut schema) in fields.unwrap_or_default() {
                let description = schema.as_object_mut().unwrap().remove("description");
                let is_required = operation.required_params.contains(&name.as_str());
                let mut parameter = json!({
                    "name": name,
                    "in": "query",
                    "required": is_required,
                    "description": description,
                    "schema": without_null(schema),
                });
                // An empty value counts as absent.
                if !is_required {
                    parameter["allowEmptyValue"] = true.into();
                }
                parameters.push(parameter);
            }
        }
        if !operation.read_only {
            parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "required": false,
                "description": IDEMPOTENCY_KEY_HELP,
                "schema": { "type": "string" },
            }));
        }
        parameters
    }

    fn build_body(&mut self, operation: &OperationSpec, route: &Route) -> Option<Value> {
        let (make, is_required) = route.shape.body?;
        let schema = make(&mut self.requests);
        let mut content = json!({ "schema": schema });
        if let Some(example) = &operation.example {
            content["example"] = example.clone();
        }
        Some(json!({ "required": is_required, "content": { "application/json": content } }))
    }

    fn build_responses(
        &mut self,
        operation: &OperationSpec,
        route: &Route,
        path: &str,
    ) -> Map<String, Value> {
        let id = operation.id;
        let schemas = (route.shape.response, operation.response);
        let make = match schemas {
            (Some(make), None) | (None, Some(make)) => make,
            (None, None) => panic!("the response type of {id} is missing"),
            (Some(_), Some(_)) => panic!("the response type of {id} is given twice"),
        };
        let mut responses = BTreeMap::new();
        let schema = make(&mut self.responses);
        let content: Map<String, Value> = (operation.media_types.iter())
            .map(|media_type| ((*media_type).to_owned(), json!({ "schema": schema })))
            .collect();
        let mut response = json!({ "description": operation.summary, "content": content });
        let mut headers = Map::new();
        let replayed = (!operation.read_only).then_some(("Idempotency-Replayed", REPLAYED_HELP));
        let seq = route.shape.has_seq.then_some(("X-Seq", SEQ_HELP));
        for (name, description) in operation.headers.iter().chain(&replayed).chain(&seq) {
            let header = json!({ "description": description, "schema": { "type": "string" } });
            headers.insert((*name).to_owned(), header);
        }
        if !headers.is_empty() {
            response["headers"] = headers.into();
        }
        responses.insert(200, response.clone());
        responses.extend(operation.also_status.map(|status| (status, response)));
        for status in error_statuses(operation, route, path) {
            let problem = json!({ "$ref": format!("#/components/responses/Problem{status}") });
            responses.entry(status).or_insert(problem);
        }
        let with_status_text = |(status, response): (u16, Value)| (status.to_string(), response);
        responses.into_iter().map(with_status_text).collect()
    }

    /// Merges the schemas of requests and responses.
    fn into_schemas(mut self) -> Value {
        let mut schemas = self.responses.take_definitions(true);
        for (name, schema) in self.requests.take_definitions(true) {
            let other = schemas.insert(name.clone(), schema.clone());
            assert!(
                other.is_none_or(|other| other == schema),
                "the schemas of {name} differ in requests and responses: use separate types"
            );
        }
        let sorted: BTreeMap<String, Value> = schemas.into_iter().collect();
        json!(sorted)
    }
}

/// Replaces intra-doc links with plain names, because readers of the document do not have the code.
fn strip_doc_links(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("[`") => {
            let mut plain = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once("[`") {
                let (link, after) = after.split_once("`]").unwrap_or((after, ""));
                let name = link.rsplit("::").next().unwrap_or(link);
                plain.push_str(before);
                plain.push_str(&format!("`{name}`"));
                rest = after;
            }
            plain.push_str(rest);
            *text = plain;
        }
        Value::Array(items) => items.iter_mut().for_each(strip_doc_links),
        Value::Object(fields) => fields.values_mut().for_each(strip_doc_links),
        _ => {}
    }
}

fn nonempty_text_schema() -> Schema {
    json_schema!({ "type": "string", "minLength": 1 })
}

fn path_parameter(generator: &mut SchemaGenerator, name: &str) -> Value {
    let (schema, description) = match name {
        "execution_id" => (ExecutionId::json_schema(generator), "Id of the execution."),
        "event_id" => (EventId::json_schema(generator), "Id of the event."),
        "token_id" => (TokenId::json_schema(generator), "Id of the token."),
        "seq" => (Seq::json_schema(generator), "Sequence number of the event in the execution."),
        "catalog_id" => (CatalogId::json_schema(generator), "Catalog id of the definition."),
        "path" => (nonempty_text_schema(), "Path of the definition."),
        "playbook_id" => (nonempty_text_schema(), "Path or catalog id of the playbook."),
        "credential" => (nonempty_text_schema(), "Id or name of the credential."),
        "kind" => (nonempty_text_schema(), "Kind of document, for example `playbook`."),
        "document" => (nonempty_text_schema(), "Schema file: `playbook.json` or `config.json`."),
        _ => (nonempty_text_schema(), "Name of the resource."),
    };
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

/// Removes `null` from the schema of a parameter: a parameter is present or absent, never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array() {
        let mut types = types.iter().filter(|name| *name != "null");
        let first = types.next().cloned().unwrap();
        schema["type"] = first;
    }
    let variants = schema.get("anyOf").and_then(Value::as_array);
    if let Some(variants) = variants {
        let mut variants = variants.iter().filter(|variant| variant["type"] != "null");
        return variants.next().cloned().unwrap();
    }
    schema
}

fn security_requirements(access: RouteAccess) -> Value {
    match access {
        RouteAccess::Open => json!([]),
        RouteAccess::Identity | RouteAccess::BodyToken => json!([{ "token": [] }]),
        RouteAccess::AnyOf(scopes) => {
            scopes.iter().map(|scope| json!({ "token": [scope.as_str()] })).collect()
        }
        RouteAccess::Internal(scope) => {
            json!([{ "internal": [] }, { "token": [scope.as_str()] }])
        }
    }
}

fn security_schemes() -> Value {
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let description = format!(
        "An API token (`noetl token create`) as bearer token, or as the password of Basic. The scopes of \
         an operation are alternatives: one of them is enough. All scopes: {}.",
        scopes.join(", ")
    );
    json!({
        "token": { "type": "http", "scheme": "bearer", "description": description },
        "internal": {
            "type": "http",
            "scheme": "bearer",
            "description": "The value of `NOETL_INTERNAL_API_TOKEN`.",
        },
    })
}

/// Error statuses of an operation.
fn error_statuses(operation: &OperationSpec, route: &Route, path: &str) -> BTreeSet<u16> {
    use ErrorCode::{
        BadQuery, Forbidden, IdempotencyMismatch, InFlight, Internal, NotFound, NotReady,
        RateLimited, RetentionDropped, Timeout, TooLarge, Unauthenticated, UnsupportedMedia,
        Validation,
    };
    let mut codes: Vec<ErrorCode> = operation.error_codes.to_vec();
    let mut statuses = BTreeSet::new();
    if !matches!(route.access, RouteAccess::Open) {
        codes.extend([Unauthenticated, Forbidden, RateLimited]);
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
        // A client that sends its body too slowly.
        statuses.insert(408);
    }
    if !operation.read_only {
        codes.extend([InFlight, IdempotencyMismatch]);
    }
    if matches!(route.access, RouteAccess::Open) {
        codes.clear();
    }
    statuses.extend(codes.iter().map(|code| code.http_status()));
    statuses
}

/// One response component per error status, with the error codes of that status.
fn problem_responses() -> Value {
    let mut codes: BTreeMap<u16, Vec<ErrorCode>> =
        BTreeMap::from([(408, vec![ErrorCode::Timeout])]);
    for code in ErrorCode::ALL {
        codes.entry(code.http_status()).or_default().push(*code);
    }
    let mut problems = Map::new();
    for (status, codes) in codes {
        let names: Vec<String> =
            (codes.iter()).map(|code| format!("`{}` ({})", code.as_str(), code.title())).collect();
        let mut problem = json!({
            "description": names.join(", "),
            "content": {
                "application/problem+json": {
                    "schema": { "$ref": format!("{SCHEMA_PREFIX}Problem") },
                },
            },
        });
        if codes.iter().any(|code| code.has_retry_after()) {
            problem["headers"] = json!({
                "Retry-After": {
                    "description": "Seconds to wait before retrying.",
                    "schema": { "type": "string" },
                },
            });
        }
        problems.insert(format!("Problem{status}"), problem);
    }
    problems.into()
}
