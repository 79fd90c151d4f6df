//! Operations on object buckets.

use async_nats::jetstream::object_store::{
    Config as BucketConfig, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectStore,
};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, TaskError, TaskErrorKind};
use tokio::io::AsyncReadExt as _;

use super::error::{nats_error, not_found};
use super::key_value::check_bucket_name;
use super::value::{check_payload_size, decode_payload, encode_payload};
use super::{NatsRequest, required_text, success_result};

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
        read.map_err(|error| nats_error("the object cannot be read", &error))?;
        let mut fields = object_fields(&info);
        fields.push(("data", decode_payload(&content)));
        Ok(with_success_status(fields))
    }

    pub(super) async fn object_put(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let data = self.config.0.get("data").or(self.config.0.get("value"));
        let content = encode_payload(data.unwrap_or(&Json::Null));
        check_bucket_name(bucket)?;
        let store = if self.has_stream(&format!("OBJ_{bucket}")).await? {
            self.jetstream
                .get_object_store(bucket)
                .await
                .map_err(|error| nats_error("the bucket cannot be opened", &error))?
        } else {
            let bucket = BucketConfig { bucket: bucket.to_owned(), ..BucketConfig::default() };
            self.jetstream
                .create_object_store(bucket)
                .await
                .map_err(|error| nats_error("the bucket cannot be created", &error))?
        };
        let stored = store.put(name, &mut &*content).await;
        let info = stored.map_err(|error| nats_error("the object cannot be stored", &error))?;
        Ok(with_success_status(object_fields(&info)))
    }

    pub(super) async fn object_delete(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let store = self.open_object_store(bucket).await?;
        self.fetch_object_info(&store, name).await?;
        let deleted = store.delete(name).await;
        deleted.map_err(|error| nats_error("the object cannot be deleted", &error))?;
        Ok(success_result([("bucket", Json::from(bucket)), ("object", Json::from(name))]))
    }

    pub(super) async fn object_list(&self) -> Result<Json, TaskError> {
        let bucket = required_text(self.config, "bucket")?;
        let list_error =
            |error: &dyn std::error::Error| nats_error("objects cannot be listed", error);
        let store = self.open_object_store(bucket).await?;
        let list = store.list().await.map_err(|error| list_error(&error))?;
        let mut list = std::pin::pin!(list);
        let mut objects = Vec::new();
        while let Some(info) = list.try_next().await.map_err(|error| list_error(&error))? {
            objects.push(Json::object(object_fields(&info)));
            if objects.len() > MAX_LISTED_OBJECTS {
                let message = format!("the bucket has more than {MAX_LISTED_OBJECTS} objects");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
        }
        Ok(success_result([
            ("bucket", Json::from(bucket)),
            ("count", Json::from(u64::try_from(objects.len()).unwrap_or(u64::MAX))),
            ("objects", Json::list(objects)),
        ]))
    }

    pub(super) async fn object_info(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.bucket_and_object()?;
        let store = self.open_object_store(bucket).await?;
        Ok(with_success_status(object_fields(&self.fetch_object_info(&store, name).await?)))
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
        let bucket = required_text(self.config, "bucket")?;
        let object = match self.config.text("object")? {
            Some(object) => object,
            None => required_text(self.config, "name")?,
        };
        Ok((bucket, object))
    }

    async fn open_object_store(&self, bucket: &str) -> Result<ObjectStore, TaskError> {
        check_bucket_name(bucket)?;
        if !self.has_stream(&format!("OBJ_{bucket}")).await? {
            return Err(not_found("bucket", bucket));
        }
        let store = self.jetstream.get_object_store(bucket).await;
        store.map_err(|error| nats_error("the bucket cannot be opened", &error))
    }
}

fn object_fields(info: &ObjectInfo) -> Vec<(&'static str, Json)> {
    vec![
        ("bucket", Json::from(&*info.bucket)),
        ("object", Json::from(&*info.name)),
        ("size", Json::from(u64::try_from(info.size).unwrap_or(u64::MAX))),
        ("digest", Json::from(info.digest.as_deref())),
    ]
}

fn with_success_status(fields: Vec<(&'static str, Json)>) -> Json {
    let status = ("status", Json::from("success"));
    Json::object(std::iter::once(status).chain(fields))
}
