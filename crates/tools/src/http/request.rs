//! HTTP request of a task.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use crate::call::ToolCall;
use crate::config::{Config, invalid_value, missing_key, required_scalar, wrong_type};

/// Request that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    pub(super) follow_redirects: bool,
    pub(super) response_type: ResponseType,
}

/// Interpretation of the response body that the author requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseType {
    /// JSON, or text if the body is not JSON.
    Json,
    Text,
    Binary,
}

impl HttpRequest {
    /// Creates a GET request that follows redirects.
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            follow_redirects: true,
            response_type: ResponseType::Text,
        }
    }

    /// Creates a request with the given method, headers and body. Follows redirects.
    pub(crate) fn new(method: Method, url: Url, headers: HeaderMap, body: Option<Vec<u8>>) -> Self {
        Self { method, headers, body, ..Self::get(url) }
    }

    pub(super) fn from_call(call: &ToolCall) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let method = read_method(config)?;
        let mut headers = read_headers(config)?;
        let body = encode_body(config, &mut headers)?;
        if !method.is_safe() {
            headers.entry(IDEMPOTENCY_KEY_HEADER).or_insert(idempotency_header(call)?);
        }
        Ok(Self {
            url: build_url(config)?,
            method,
            headers,
            body,
            follow_redirects: config.flag("follow_redirects")?.unwrap_or(true),
            response_type: read_response_type(config)?,
        })
    }
}

pub(crate) const IDEMPOTENCY_KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Returns the idempotency key of a call as a header value.
pub(crate) fn idempotency_header(call: &ToolCall) -> Result<HeaderValue, TaskError> {
    HeaderValue::from_str(&call.idempotency_key)
        .map_err(|_| invalid_value("idempotency_key", "is not a valid header value"))
}

fn read_method(config: Config<'_>) -> Result<Method, TaskError> {
    let name = config.text("method")?.unwrap_or("GET");
    Method::from_bytes(name.to_ascii_uppercase().as_bytes())
        .map_err(|_| invalid_value("method", &format!("is '{name}', which is not an HTTP method")))
}

fn build_url(config: Config<'_>) -> Result<Url, TaskError> {
    let text = config.first_text(&["url", "endpoint"])?;
    let mut url = parse_http_url("url", text.ok_or_else(|| missing_key("'url'"))?)?;
    if let Some(params) = config.map("params")? {
        let pairs = form_pairs("params", params)?;
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
    }
    Ok(url)
}

/// Parses the address of a key.
pub(crate) fn parse_http_url(key: &str, text: &str) -> Result<Url, TaskError> {
    let url = Url::parse(text.trim()).map_err(|error| {
        invalid_value(key, &format!("is '{text}', which is not a URL: {error}"))
    })?;
    if matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    let problem = format!("has the scheme '{}'; use http or https", url.scheme());
    Err(invalid_value(key, &problem))
}

/// Names and values of a query or a form. Null values are omitted, a list repeats its name.
fn form_pairs(key: &str, map: &JsonMap) -> Result<Vec<(String, String)>, TaskError> {
    let mut pairs = Vec::new();
    for (name, value) in map {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values.iter().filter(|value| !value.is_null()) {
            let text = required_scalar(&format!("{key}.{name}"), value)?;
            pairs.push((name.to_string(), text));
        }
    }
    Ok(pairs)
}

/// Reads the headers of a config, including that of its credential.
pub(crate) fn read_headers(config: Config<'_>) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in config.text_map("headers")? {
        let key = || format!("headers.{name}");
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| invalid_value(&key(), "is not a valid header value"))?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid_value(&key(), "is not a valid header name"))?;
        headers.insert(name, value);
    }
    if let Some(auth) = config.get("auth") {
        let (name, value) = credential_header(auth)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn encode_body(config: Config<'_>, headers: &mut HeaderMap) -> Result<Option<Vec<u8>>, TaskError> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    let keys = ["json", "form", "body", "payload", "data"];
    // `json: null` is a valid body.
    let is_present =
        |key: &&str| config.get(key).is_some() || (*key == "json" && config.0.contains_key("json"));
    let mut present = keys.into_iter().filter(is_present);
    let Some(key) = present.next() else {
        return Ok(None);
    };
    if let Some(other) = present.next() {
        let value = config.get(other).cloned().unwrap_or_default();
        return Err(wrong_type(other, &format!("absent if '{key}' is given"), &value));
    }
    let (bytes, content_type) = match (key, config.get(key).unwrap_or(&Json::Null)) {
        ("form", Json::Map(fields)) => {
            let mut form = Url::parse("http://form").map_err(|_| missing_key("'form'"))?;
            form.query_pairs_mut().extend_pairs(form_pairs("form", fields)?);
            (form.query().unwrap_or("").as_bytes().to_vec(), FORM)
        }
        ("form", other) => return Err(wrong_type("form", "a map", other)),
        ("body" | "payload" | "data", Json::Str(text)) => (text.as_bytes().to_vec(), TEXT),
        (_, value) => (to_canonical(value), JSON),
    };
    headers.entry(CONTENT_TYPE).or_insert(content_type);
    Ok(Some(bytes))
}

fn read_response_type(config: Config<'_>) -> Result<ResponseType, TaskError> {
    match config.text("response_type")? {
        None | Some("json") => Ok(ResponseType::Json),
        Some("text") => Ok(ResponseType::Text),
        Some("binary") => Ok(ResponseType::Binary),
        Some(other) => Err(invalid_value(
            "response_type",
            &format!("is '{other}'; it must be json, text or binary"),
        )),
    }
}

/// Header of an API key, unless the credential names another.
const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// Builds the header that the credential of a task requires.
fn credential_header(auth: &Json) -> Result<(HeaderName, HeaderValue), TaskError> {
    let Some(fields) = auth.as_map() else {
        let alias = auth.as_str().unwrap_or("?");
        return Err(auth_error(format!(
            "the credential '{alias}' cannot be resolved: this worker has no keychain; \
             give the credential as a map, such as {{type: bearer, token: ...}}"
        )));
    };
    let fields = Config(fields);
    let kind = fields.text("type").ok().flatten().unwrap_or("");
    let (name, text) = match kind {
        "bearer" | "bearer_token" => {
            let token = credential_field(fields, kind, &["token", "bearer_token"])?;
            (AUTHORIZATION, format!("Bearer {token}"))
        }
        "basic" => {
            let user = credential_field(fields, kind, &["username", "user"])?;
            let password = credential_field(fields, kind, &["password"])?;
            let pair = STANDARD.encode(format!("{user}:{password}"));
            (AUTHORIZATION, format!("Basic {pair}"))
        }
        "api_key" => {
            let name = match fields.text("header").ok().flatten() {
                Some(name) => HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| auth_error(format!("'{name}' is not a valid header name")))?,
                None => API_KEY_HEADER,
            };
            (name, credential_field(fields, kind, &["api_key", "key"])?.to_owned())
        }
        "" => return Err(auth_error("the credential has no 'type'".to_owned())),
        other => {
            return Err(auth_error(format!(
                "a credential of type '{other}' cannot be used by an http task; \
                 use bearer, basic or api_key"
            )));
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| auth_error(format!("the {kind} credential is not a valid header value")))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn credential_field<'f>(
    fields: Config<'f>,
    kind: &str,
    names: &[&str],
) -> Result<&'f str, TaskError> {
    names
        .iter()
        .find_map(|name| fields.text(name).ok().flatten())
        .ok_or_else(|| auth_error(format!("the {kind} credential has no '{}'", names[0])))
}

fn auth_error(message: String) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, message)
}
