//! The request that a config asks for.

use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap, TaskError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::auth;
use crate::call::Call;
use crate::config::{Config, missing, printed, unreadable, wrong};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request, ready to be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    pub(super) follow_redirects: bool,
    pub(super) response_type: ResponseType,
}

/// What the author makes of the answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseType {
    /// JSON, or text where it is none.
    Json,
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

impl Request {
    /// Reads the config of a call.
    pub(super) fn read(call: &Call) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let method = method(config)?;
        let mut headers = headers(config)?;
        let body = body(config, &mut headers)?;
        if let Some(auth) = config.get("auth") {
            let (name, value) = auth::header(auth)?;
            headers.insert(name, value);
        }
        if !method.is_safe() && !headers.contains_key(IDEMPOTENCY_KEY) {
            let value = HeaderValue::from_str(&call.idempotency_key)
                .map_err(|_| unreadable("idempotency_key", "cannot be a header"))?;
            headers.insert(IDEMPOTENCY_KEY, value);
        }
        Ok(Self {
            url: url(config)?,
            method,
            headers,
            body,
            follow_redirects: config.flag("follow_redirects")?.unwrap_or(true),
            response_type: response_type(config)?,
        })
    }
}

fn method(config: Config<'_>) -> Result<Method, TaskError> {
    let word = config.text("method")?.unwrap_or("GET");
    Method::from_bytes(word.to_ascii_uppercase().as_bytes())
        .map_err(|_| unreadable("method", &format!("is '{word}', which is no HTTP method")))
}

fn url(config: Config<'_>) -> Result<Url, TaskError> {
    let text = match config.text("url")? {
        Some(text) => Some(text),
        None => config.text("endpoint")?,
    };
    let text = text.ok_or_else(|| missing("'url'"))?;
    let mut url = Url::parse(text.trim())
        .map_err(|error| unreadable("url", &format!("is '{text}', which is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        let why = format!(
            "has the scheme '{}'; only http and https can be used",
            url.scheme()
        );
        return Err(unreadable("url", &why));
    }
    if let Some(params) = config.map("params")? {
        let pairs = pairs("params", params)?;
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
    }
    Ok(url)
}

/// Names and values of a query or a form: null is left out, a list repeats its name.
fn pairs(key: &str, map: &JsonMap) -> Result<Vec<(String, String)>, TaskError> {
    let mut pairs = Vec::new();
    for (name, value) in map {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values.iter().filter(|value| !value.is_null()) {
            let text = printed(value)
                .ok_or_else(|| wrong(&format!("{key}.{name}"), "a text or a number", value))?;
            pairs.push((name.to_string(), text));
        }
    }
    Ok(pairs)
}

fn headers(config: Config<'_>) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in config.texts("headers")? {
        let key = || format!("headers.{name}");
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| unreadable(&key(), "cannot be the value of a header"))?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| unreadable(&key(), "is not the name of a header"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn body(config: Config<'_>, headers: &mut HeaderMap) -> Result<Option<Vec<u8>>, TaskError> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    let keys = ["json", "form", "body", "payload", "data"];
    // A null under `json` is a body like any other.
    let given =
        |key: &&str| config.get(key).is_some() || (*key == "json" && config.0.contains_key("json"));
    let mut given = keys.into_iter().filter(given);
    let Some(key) = given.next() else {
        return Ok(None);
    };
    if let Some(other) = given.next() {
        let value = config.get(other).cloned().unwrap_or_default();
        return Err(wrong(other, &format!("absent beside '{key}'"), &value));
    }
    let (bytes, kind) = match (key, config.get(key).unwrap_or(&Json::Null)) {
        ("form", Json::Map(fields)) => {
            let mut form = Url::parse("http://form").map_err(|_| missing("'form'"))?;
            form.query_pairs_mut().extend_pairs(pairs("form", fields)?);
            (form.query().unwrap_or("").as_bytes().to_vec(), FORM)
        }
        ("form", other) => return Err(wrong("form", "a map", other)),
        ("body" | "payload" | "data", Json::Str(text)) => (text.as_bytes().to_vec(), TEXT),
        (_, value) => (to_canonical(value), JSON),
    };
    headers.entry(CONTENT_TYPE).or_insert(kind);
    Ok(Some(bytes))
}

fn response_type(config: Config<'_>) -> Result<ResponseType, TaskError> {
    match config.text("response_type")? {
        None | Some("json") => Ok(ResponseType::Json),
        Some("text") => Ok(ResponseType::Text),
        Some("binary") => Ok(ResponseType::Binary),
        Some(word) => Err(unreadable(
            "response_type",
            &format!("is '{word}', not json, text or binary"),
        )),
    }
}
