//! Operations on key-value buckets.

use std::time::Duration;

use async_nats::jetstream::kv::{Operation, Store};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, Millis, TaskError, TaskErrorKind};

use super::error::{invalid_name, nats_error, not_found};
use super::value::{check_payload_size, decode_payload, encode_payload};
use super::{NatsRequest, required_text, success_result};

/// Maximum number of keys in a list.
const MAX_LISTED_KEYS: usize = 100_000;

impl NatsRequest<'_> {
    pub(super) async fn kv_get(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let store = self.open_bucket(name).await?;
        let entry = store.entry(key).await;
        let entry = entry.map_err(|error| nats_error("the value cannot be read", &error))?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        let Some(entry) = entry else {
            return Ok(Json::object([
                ("status", Json::from("not_found")),
                ("bucket", Json::from(name)),
                ("key", Json::from(key)),
                ("value", Json::Null),
            ]));
        };
        check_payload_size(entry.value.len(), self.settings.payload_cap)?;
        Ok(success_result([
            ("bucket", Json::from(name)),
            ("key", Json::from(key)),
            ("value", decode_payload(&entry.value)),
            ("revision", Json::from(entry.revision)),
        ]))
    }

    pub(super) async fn kv_put(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let value = self.config.0.get("value").unwrap_or(&Json::Null);
        let store = self.get_or_create_bucket(name).await?;
        let revision = store.put(key, encode_payload(value)).await;
        let revision =
            revision.map_err(|error| nats_error("the value cannot be stored", &error))?;
        Ok(success_result([
            ("bucket", Json::from(name)),
            ("key", Json::from(key)),
            ("revision", Json::from(revision)),
        ]))
    }

    pub(super) async fn kv_delete(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let deleted = self.open_bucket(name).await?.delete(key).await;
        deleted.map_err(|error| nats_error("the key cannot be deleted", &error))?;
        Ok(key_result(name, key))
    }

    pub(super) async fn kv_purge(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let purged = self.open_bucket(name).await?.purge(key).await;
        purged.map_err(|error| nats_error("the key cannot be purged", &error))?;
        Ok(key_result(name, key))
    }

    pub(super) async fn kv_keys(&self) -> Result<Json, TaskError> {
        let name = required_text(self.config, "bucket")?;
        let pattern = self.config.text("pattern")?.unwrap_or(">");
        let list_error =
            |error: &dyn std::error::Error| nats_error("the keys cannot be listed", error);
        let store = self.open_bucket(name).await?;
        let keys = store.keys().await.map_err(|error| list_error(&error))?;
        let mut matching: Vec<String> = Vec::new();
        let mut keys = std::pin::pin!(keys);
        while let Some(key) = keys.try_next().await.map_err(|error| list_error(&error))? {
            if matches_pattern(pattern, &key) {
                matching.push(key);
            }
            if matching.len() > MAX_LISTED_KEYS {
                let message =
                    format!("more than {MAX_LISTED_KEYS} keys match; use a narrower 'pattern'");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
        }
        matching.sort_unstable();
        matching.dedup();
        Ok(success_result([
            ("bucket", Json::from(name)),
            ("count", Json::from(u64::try_from(matching.len()).unwrap_or(u64::MAX))),
            ("keys", Json::list(matching.into_iter().map(Json::from))),
        ]))
    }

    fn bucket_and_key(&self) -> Result<(&str, &str), TaskError> {
        let bucket = required_text(self.config, "bucket")?;
        let key = required_text(self.config, "key")?;
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "-/_=.".contains(c);
        if !key.chars().all(is_legal) || key.starts_with('.') || key.ends_with('.') {
            return Err(invalid_name("key", key));
        }
        Ok((bucket, key))
    }

    async fn open_bucket(&self, name: &str) -> Result<Store, TaskError> {
        match self.find_bucket(name).await? {
            Some(store) => Ok(store),
            None => Err(not_found("bucket", name)),
        }
    }

    async fn find_bucket(&self, name: &str) -> Result<Option<Store>, TaskError> {
        check_bucket_name(name)?;
        if !self.has_stream(&format!("KV_{name}")).await? {
            return Ok(None);
        }
        let store = self.jetstream.get_key_value(name).await;
        let store = store.map_err(|error| nats_error("the bucket cannot be opened", &error))?;
        Ok(Some(store))
    }

    /// Opens a bucket, or creates it if it does not exist. The `ttl` of the task applies only when
    /// the bucket is created.
    async fn get_or_create_bucket(&self, name: &str) -> Result<Store, TaskError> {
        if let Some(store) = self.find_bucket(name).await? {
            return Ok(store);
        }
        let ttl = self.config.get("ttl").map(Millis::from_json).transpose();
        let ttl = ttl.map_err(|error| {
            TaskError::new(TaskErrorKind::Schema, format!("'ttl' is not a duration: {error}"))
        })?;
        // Created as the underlying stream: the library's own call requires information that old
        // servers do not report.
        let bucket = Config {
            name: format!("KV_{name}"),
            subjects: vec![format!("$KV.{name}.>")],
            max_messages_per_subject: 1,
            max_age: ttl.map_or(Duration::ZERO, |ttl| Duration::from_millis(ttl.as_ms())),
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            ..Config::default()
        };
        let created = self.jetstream.get_or_create_stream(bucket).await;
        created.map_err(|error| nats_error("the bucket cannot be created", &error))?;
        let store = self.jetstream.get_key_value(name).await;
        store.map_err(|error| nats_error("the bucket cannot be opened", &error))
    }
}

fn key_result(bucket: &str, key: &str) -> Json {
    success_result([("bucket", Json::from(bucket)), ("key", Json::from(key))])
}

pub(super) fn check_bucket_name(name: &str) -> Result<(), TaskError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.chars().all(is_legal) { Ok(()) } else { Err(invalid_name("bucket", name)) }
}

/// True if a key matches a pattern: `*` matches one token, `>` matches all remaining tokens.
fn matches_pattern(pattern: &str, key: &str) -> bool {
    let (mut pattern, mut key) = (pattern.split('.'), key.split('.'));
    loop {
        match (pattern.next(), key.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(left), Some(right)) if left == right => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    #[test]
    fn matches_key_patterns() {
        for (pattern, key) in [(">", "a.b"), ("a.*", "a.b"), ("a.>", "a.b.c"), ("a", "a")] {
            assert!(matches_pattern(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [("a.*", "a"), ("a.*", "a.b.c"), ("a.>", "a"), ("b", "a")] {
            assert!(!matches_pattern(pattern, key), "{pattern} {key}");
        }
    }
}
