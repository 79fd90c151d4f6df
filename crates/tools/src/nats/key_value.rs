//! Operations on key-value buckets.

use async_nats::jetstream::kv::{Operation, Store};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, Millis, TaskError, TaskErrorKind};

use super::error::{NatsResult as _, invalid_name, not_found};
use super::streams::open_stream;
use super::value::{check_payload_size, decode_payload, encode_payload};
use super::{NatsRequest, success_result};
use crate::config::schema_error;

/// Maximum number of keys in a list.
const MAX_LISTED_KEYS: usize = 100_000;

impl NatsRequest<'_> {
    pub(super) async fn kv_get(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let store = self.open_bucket(name).await?;
        let entry = store.entry(key).await.or_fail("the value cannot be read")?;
        let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) else {
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
        let revision = revision.or_fail("the value cannot be stored")?;
        Ok(success_result([
            ("bucket", Json::from(name)),
            ("key", Json::from(key)),
            ("revision", Json::from(revision)),
        ]))
    }

    pub(super) async fn kv_delete(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let deleted = self.open_bucket(name).await?.delete(key).await;
        deleted.or_fail("the key cannot be deleted")?;
        Ok(success_result([("bucket", Json::from(name)), ("key", Json::from(key))]))
    }

    pub(super) async fn kv_purge(&self) -> Result<Json, TaskError> {
        let (name, key) = self.bucket_and_key()?;
        let purged = self.open_bucket(name).await?.purge(key).await;
        purged.or_fail("the key cannot be purged")?;
        Ok(success_result([("bucket", Json::from(name)), ("key", Json::from(key))]))
    }

    pub(super) async fn kv_keys(&self) -> Result<Json, TaskError> {
        const LIST_FAILED: &str = "the keys cannot be listed";
        let name = self.config.required_text("bucket")?;
        let pattern = self.config.text("pattern")?.unwrap_or(">");
        let store = self.open_bucket(name).await?;
        let mut keys = std::pin::pin!(store.keys().await.or_fail(LIST_FAILED)?);
        let mut matching: Vec<String> = Vec::new();
        while let Some(key) = keys.try_next().await.or_fail(LIST_FAILED)? {
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
            ("count", Json::from(matching.len())),
            ("keys", Json::list(matching.into_iter().map(Json::from))),
        ]))
    }

    fn bucket_and_key(&self) -> Result<(&str, &str), TaskError> {
        let bucket = self.config.required_text("bucket")?;
        let key = self.config.required_text("key")?;
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "-/_=.".contains(c);
        if !key.chars().all(is_legal) || key.starts_with('.') || key.ends_with('.') {
            return Err(invalid_name("key", key));
        }
        Ok((bucket, key))
    }

    async fn open_bucket(&self, name: &str) -> Result<Store, TaskError> {
        if !self.has_bucket("KV", name).await? {
            return Err(not_found("bucket", name));
        }
        self.jetstream.get_key_value(name).await.or_fail("the bucket cannot be opened")
    }

    /// Opens a bucket, or creates it if it does not exist. The `ttl` of the task applies only when
    /// the bucket is created.
    async fn get_or_create_bucket(&self, name: &str) -> Result<Store, TaskError> {
        if !self.has_bucket("KV", name).await? {
            let ttl = self.config.get("ttl").map(Millis::from_json).transpose();
            let ttl = ttl
                .map_err(|error| schema_error(format!("'ttl' is not a duration: {error}")))?
                .unwrap_or_default();
            // Created as the underlying stream: the library's own call requires information that
            // old servers do not report.
            let bucket = Config {
                name: format!("KV_{name}"),
                subjects: vec![format!("$KV.{name}.>")],
                max_messages_per_subject: 1,
                max_age: ttl.into(),
                discard: DiscardPolicy::New,
                allow_rollup: true,
                deny_delete: true,
                allow_direct: true,
                ..Config::default()
            };
            let created = self.jetstream.get_or_create_stream(bucket).await;
            created.or_fail("the bucket cannot be created")?;
        }
        self.jetstream.get_key_value(name).await.or_fail("the bucket cannot be opened")
    }

    /// True if a bucket exists, whose stream has a name with this prefix.
    pub(super) async fn has_bucket(&self, prefix: &str, name: &str) -> Result<bool, TaskError> {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if !name.chars().all(is_legal) {
            return Err(invalid_name("bucket", name));
        }
        match open_stream(&self.jetstream, &format!("{prefix}_{name}")).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == TaskErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
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
