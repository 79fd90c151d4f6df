//! The request that a config asks for.

use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap, TaskError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::auth;
use crate::call::Call;
use crate::config::{Config, missing, printed, unreadable, wrong};

/// A request, ready to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    pub(super) follow_redirects: bool,
    pub(super) response_type: ResponseType,
}

/// What the author makes of the answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseType {
    /// JSON, or text where it is none.
    Json,
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

impl Request {
    /// Reads what is at an address.
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

    /// The same address with another method and body; redirects are followed.
    pub(crate) fn new(method: Method, url: Url, headers: HeaderMap, body: Option<Vec<u8>>) -> Self {
        Self {
            method,
            headers,
            body,
            ..Self::get(url)
        }
    }

    /// Reads the config of a call.
    pub(super) fn of_call(call: &Call) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let method = method(config)?;
        let mut headers = headers(config)?;
        let body = body(config, &mut headers)?;
        if !method.is_safe() {
            headers
                .entry(IDEMPOTENCY_KEY)
                .or_insert(idempotency_key(call)?);
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

/// The header that names the key under which an effect happens once.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key under which the effect of a call happens once, as the value of a header.
pub(crate) fn idempotency_key(call: &Call) -> Result<HeaderValue, TaskError> {
    HeaderValue::from_str(&call.idempotency_key)
        .map_err(|_| unreadable("idempotency_key", "cannot be a header"))
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
    let mut url = read_url("url", text.ok_or_else(|| missing("'url'"))?)?;
    if let Some(params) = config.map("params")? {
        let pairs = pairs("params", params)?;
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
    }
    Ok(url)
}

/// The address that a key holds.
pub(crate) fn read_url(key: &str, text: &str) -> Result<Url, TaskError> {
    let url = Url::parse(text.trim())
        .map_err(|error| unreadable(key, &format!("is '{text}', which is no URL: {error}")))?;
    if matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    let why = format!(
        "has the scheme '{}'; only http and https can be used",
        url.scheme()
    );
    Err(unreadable(key, &why))
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

/// The headers that a config asks for, with that of its credential.
pub(crate) fn headers(config: Config<'_>) -> Result<HeaderMap, TaskError> {
    let mut headers = HeaderMap::new();
    for (name, value) in config.texts("headers")? {
        let key = || format!("headers.{name}");
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| unreadable(&key(), "cannot be the value of a header"))?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| unreadable(&key(), "is not the name of a header"))?;
        headers.insert(name, value);
    }
    if let Some(auth) = config.get("auth") {
        let (name, value) = auth::header(auth)?;
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
