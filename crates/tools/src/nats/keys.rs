//! Buckets of keys and values.

use std::time::Duration;

use async_nats::jetstream::kv::{Operation, Store};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, Millis, TaskError, TaskErrorKind};

use super::fault::{failed, illegal, not_found};
use super::value::{bytes, check_size, value};
use super::{Talk, required, success};

/// Keys that a list names at most.
const MOST_KEYS: usize = 100_000;

impl Talk<'_> {
    pub(super) async fn kv_get(&self) -> Result<Json, TaskError> {
        let (name, key) = self.entry()?;
        let store = self.bucket(name).await?;
        let entry = store.entry(key).await;
        let entry = entry.map_err(|error| failed("the value cannot be read", &error))?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        let Some(entry) = entry else {
            return Ok(Json::object([
                ("status", Json::from("not_found")),
                ("bucket", Json::from(name)),
                ("key", Json::from(key)),
                ("value", Json::Null),
            ]));
        };
        check_size(entry.value.len(), self.settings.payload_cap)?;
        Ok(success([
            ("bucket", Json::from(name)),
            ("key", Json::from(key)),
            ("value", value(&entry.value)),
            ("revision", Json::from(entry.revision)),
        ]))
    }

    pub(super) async fn kv_put(&self) -> Result<Json, TaskError> {
        let (name, key) = self.entry()?;
        let put = self.config.0.get("value").unwrap_or(&Json::Null);
        let store = self.bucket_or_new(name).await?;
        let revision = store.put(key, bytes(put)).await;
        let revision = revision.map_err(|error| failed("the value cannot be put", &error))?;
        Ok(success([
            ("bucket", Json::from(name)),
            ("key", Json::from(key)),
            ("revision", Json::from(revision)),
        ]))
    }

    pub(super) async fn kv_delete(&self) -> Result<Json, TaskError> {
        let (name, key) = self.entry()?;
        let deleted = self.bucket(name).await?.delete(key).await;
        deleted.map_err(|error| failed("the key cannot be deleted", &error))?;
        Ok(done(name, key))
    }

    pub(super) async fn kv_purge(&self) -> Result<Json, TaskError> {
        let (name, key) = self.entry()?;
        let purged = self.bucket(name).await?.purge(key).await;
        purged.map_err(|error| failed("the key cannot be purged", &error))?;
        Ok(done(name, key))
    }

    pub(super) async fn kv_keys(&self) -> Result<Json, TaskError> {
        let name = required(self.config, "bucket")?;
        let pattern = self.config.text("pattern")?.unwrap_or(">");
        let unreadable = |error: &dyn std::error::Error| failed("the keys cannot be read", error);
        let store = self.bucket(name).await?;
        let keys = store.keys().await.map_err(|error| unreadable(&error))?;
        let mut found: Vec<String> = Vec::new();
        let mut keys = std::pin::pin!(keys);
        while let Some(key) = keys.try_next().await.map_err(|error| unreadable(&error))? {
            if fits(pattern, &key) {
                found.push(key);
            }
            if found.len() > MOST_KEYS {
                let message =
                    format!("the bucket has more than {MOST_KEYS} keys; give a 'pattern'");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(success([
            ("bucket", Json::from(name)),
            (
                "count",
                Json::from(u64::try_from(found.len()).unwrap_or(u64::MAX)),
            ),
            ("keys", Json::list(found.into_iter().map(Json::from))),
        ]))
    }

    fn entry(&self) -> Result<(&str, &str), TaskError> {
        let bucket = required(self.config, "bucket")?;
        let key = required(self.config, "key")?;
        let is_legal = |letter: char| letter.is_ascii_alphanumeric() || "-/_=.".contains(letter);
        if !key.chars().all(is_legal) || key.starts_with('.') || key.ends_with('.') {
            return Err(illegal("key", key));
        }
        Ok((bucket, key))
    }

    async fn bucket(&self, name: &str) -> Result<Store, TaskError> {
        match self.found_bucket(name).await? {
            Some(store) => Ok(store),
            None => Err(not_found("bucket", name)),
        }
    }

    async fn found_bucket(&self, name: &str) -> Result<Option<Store>, TaskError> {
        check_bucket(name)?;
        if !self.has_stream(&format!("KV_{name}")).await? {
            return Ok(None);
        }
        let store = self.jetstream.get_key_value(name).await;
        let store = store.map_err(|error| failed("the bucket cannot be used", &error))?;
        Ok(Some(store))
    }

    /// A bucket, made where it is missing. Its values last as long as the task says, if it does: the
    /// first one to put something decides.
    async fn bucket_or_new(&self, name: &str) -> Result<Store, TaskError> {
        if let Some(store) = self.found_bucket(name).await? {
            return Ok(store);
        }
        let ttl = self.config.get("ttl").map(Millis::from_json).transpose();
        let ttl = ttl.map_err(|error| {
            TaskError::new(TaskErrorKind::Schema, format!("'ttl' is no time: {error}"))
        })?;
        // Made as the stream that it is: the way of the library asks for more than old servers tell.
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
        let made = self.jetstream.get_or_create_stream(bucket).await;
        made.map_err(|error| failed("the bucket cannot be made", &error))?;
        let store = self.jetstream.get_key_value(name).await;
        store.map_err(|error| failed("the bucket cannot be used", &error))
    }
}

fn done(bucket: &str, key: &str) -> Json {
    success([("bucket", Json::from(bucket)), ("key", Json::from(key))])
}

pub(super) fn check_bucket(name: &str) -> Result<(), TaskError> {
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if name.chars().all(is_legal) {
        Ok(())
    } else {
        Err(illegal("bucket", name))
    }
}

/// Whether a key is one of those that a pattern names: `*` is one part, `>` is all the rest.
fn fits(pattern: &str, key: &str) -> bool {
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
    use super::fits;

    #[test]
    fn patterns_of_keys() {
        for (pattern, key) in [(">", "a.b"), ("a.*", "a.b"), ("a.>", "a.b.c"), ("a", "a")] {
            assert!(fits(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [("a.*", "a"), ("a.*", "a.b.c"), ("a.>", "a"), ("b", "a")] {
            assert!(!fits(pattern, key), "{pattern} {key}");
        }
    }
}
