//! Operations on key-value buckets and object buckets.

use async_nats::jetstream::kv::{Operation, Store};
use async_nats::jetstream::object_store::{
    Config as BucketConfig, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectStore,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, Millis, TaskError, TaskErrorKind};
use tokio::io::AsyncReadExt as _;

use super::streams::open_stream;
use super::{
    NatsRequest, NatsResult as _, check_payload_size, decode_payload, encode_payload, invalid_name,
    nats_error, not_found, success_result,
};
use crate::config::schema_error;

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

const MAX_LISTED_OBJECTS: usize = 10_000;

impl NatsRequest<'_> {
    pub(super) async fn object_get(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let store = self.open_object_store(bucket).await?;
        let mut object = store.get(name).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => not_found("object", name),
            _ => nats_error("the object cannot be read", &error),
        })?;
        let info = object.info().clone();
        check_payload_size(info.size, self.settings.payload_cap)?;
        let mut content = Vec::with_capacity(info.size);
        let max_bytes = self.settings.payload_cap.as_bytes();
        let read = (&mut object).take(max_bytes).read_to_end(&mut content).await;
        read.or_fail("the object cannot be read")?;
        let data = ("data", decode_payload(&content));
        Ok(success_result(object_fields(&info).into_iter().chain([data])))
    }

    pub(super) async fn object_put(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let data = self.config.0.get("data").or(self.config.0.get("value"));
        let content = encode_payload(data.unwrap_or(&Json::Null));
        let store = if self.has_bucket("OBJ", bucket).await? {
            self.jetstream.get_object_store(bucket).await.or_fail("the bucket cannot be opened")?
        } else {
            let bucket = BucketConfig { bucket: bucket.to_owned(), ..BucketConfig::default() };
            let created = self.jetstream.create_object_store(bucket).await;
            created.or_fail("the bucket cannot be created")?
        };
        let stored = store.put(name, &mut &*content).await;
        let info = stored.or_fail("the object cannot be stored")?;
        Ok(success_result(object_fields(&info)))
    }

    pub(super) async fn object_delete(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let store = self.open_object_store(bucket).await?;
        self.fetch_object_info(&store, name).await?;
        let deleted = store.delete(name).await;
        deleted.or_fail("the object cannot be deleted")?;
        Ok(success_result([("bucket", Json::from(bucket)), ("object", Json::from(name))]))
    }

    pub(super) async fn object_list(&self) -> Result<Json, TaskError> {
        const LIST_FAILED: &str = "objects cannot be listed";
        let bucket = self.config.required_text("bucket")?;
        let store = self.open_object_store(bucket).await?;
        let mut list = std::pin::pin!(store.list().await.or_fail(LIST_FAILED)?);
        let mut objects = Vec::new();
        while let Some(info) = list.try_next().await.or_fail(LIST_FAILED)? {
            objects.push(Json::object(object_fields(&info)));
            if objects.len() > MAX_LISTED_OBJECTS {
                let message = format!("the bucket has more than {MAX_LISTED_OBJECTS} objects");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
        }
        Ok(success_result([
            ("bucket", Json::from(bucket)),
            ("count", Json::from(objects.len())),
            ("objects", Json::list(objects)),
        ]))
    }

    pub(super) async fn object_info(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let store = self.open_object_store(bucket).await?;
        Ok(success_result(object_fields(&self.fetch_object_info(&store, name).await?)))
    }

    async fn fetch_object_info(
        &self,
        store: &ObjectStore,
        name: &str,
    ) -> Result<ObjectInfo, TaskError> {
        let info = store.info(name).await.map_err(|error| match error.kind() {
            InfoErrorKind::NotFound => not_found("object", name),
            _ => nats_error("the metadata of the object cannot be read", &error),
        })?;
        if info.deleted {
            return Err(not_found("object", name));
        }
        Ok(info)
    }

    fn bucket_and_object(&self) -> Result<(&str, &str), TaskError> {
        let bucket = self.config.required_text("bucket")?;
        let object = match self.config.text("object")? {
            Some(object) => object,
            None => self.config.required_text("name")?,
        };
        Ok((bucket, object))
    }

    async fn open_object_store(&self, bucket: &str) -> Result<ObjectStore, TaskError> {
        if !self.has_bucket("OBJ", bucket).await? {
            return Err(not_found("bucket", bucket));
        }
        self.jetstream.get_object_store(bucket).await.or_fail("the bucket cannot be opened")
    }
}

fn object_fields(info: &ObjectInfo) -> [(&'static str, Json); 4] {
    [
        ("bucket", Json::from(&*info.bucket)),
        ("object", Json::from(&*info.name)),
        ("size", Json::from(info.size)),
        ("digest", Json::from(info.digest.as_deref())),
    ]
}

#[cfg(test)]
mod tests;
