//! Operations on object buckets.

use async_nats::jetstream::object_store::{
    Config as BucketConfig, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectStore,
};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, TaskError, TaskErrorKind};
use tokio::io::AsyncReadExt as _;

use super::error::{NatsResult as _, nats_error, not_found};
use super::value::{check_payload_size, decode_payload, encode_payload};
use super::{NatsRequest, success_result};

/// Maximum number of objects in a list.
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
