//! Buckets of objects.

use async_nats::jetstream::object_store::{
    Config as Bucket, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectStore,
};
use futures_util::TryStreamExt as _;
use noetl_types::{Json, TaskError, TaskErrorKind};
use tokio::io::AsyncReadExt as _;

use super::fault::{failed, not_found};
use super::keys::check_bucket;
use super::value::{bytes, check_size, value};
use super::{Talk, required, success};

/// Objects that a list names at most.
const MOST_OBJECTS: usize = 10_000;

impl Talk<'_> {
    pub(super) async fn object_get(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.object()?;
        let store = self.objects(bucket).await?;
        let mut object = store.get(name).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => not_found("object", name),
            _ => failed("the object cannot be read", &error),
        })?;
        let info = object.info().clone();
        check_size(info.size, self.settings.payload_cap)?;
        let mut content = Vec::with_capacity(info.size);
        let most = self.settings.payload_cap.as_bytes();
        let read = (&mut object).take(most).read_to_end(&mut content).await;
        read.map_err(|error| failed("the object cannot be read", &error))?;
        let mut told = told(&info);
        told.push(("data", value(&content)));
        Ok(with_status(told))
    }

    pub(super) async fn object_put(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.object()?;
        let given = self.config.0.get("data").or(self.config.0.get("value"));
        let content = bytes(given.unwrap_or(&Json::Null));
        check_bucket(bucket)?;
        let store = if self.has_stream(&format!("OBJ_{bucket}")).await? {
            self.jetstream
                .get_object_store(bucket)
                .await
                .map_err(|error| failed("the bucket cannot be used", &error))?
        } else {
            let bucket = Bucket {
                bucket: bucket.to_owned(),
                ..Bucket::default()
            };
            self.jetstream
                .create_object_store(bucket)
                .await
                .map_err(|error| failed("the bucket cannot be made", &error))?
        };
        let put = store.put(name, &mut &*content).await;
        let info = put.map_err(|error| failed("the object cannot be put", &error))?;
        Ok(with_status(told(&info)))
    }

    pub(super) async fn object_delete(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.object()?;
        let store = self.objects(bucket).await?;
        self.info_of(&store, name).await?;
        let deleted = store.delete(name).await;
        deleted.map_err(|error| failed("the object cannot be deleted", &error))?;
        Ok(success([
            ("bucket", Json::from(bucket)),
            ("object", Json::from(name)),
        ]))
    }

    pub(super) async fn object_list(&self) -> Result<Json, TaskError> {
        let bucket = required(self.config, "bucket")?;
        let unreadable = |error: &dyn std::error::Error| failed("the list cannot be read", error);
        let store = self.objects(bucket).await?;
        let list = store.list().await.map_err(|error| unreadable(&error))?;
        let mut list = std::pin::pin!(list);
        let mut objects = Vec::new();
        while let Some(info) = list.try_next().await.map_err(|error| unreadable(&error))? {
            objects.push(Json::object(told(&info)));
            if objects.len() > MOST_OBJECTS {
                let message = format!("the bucket has more than {MOST_OBJECTS} objects");
                return Err(TaskError::new(TaskErrorKind::Limit, message));
            }
        }
        Ok(success([
            ("bucket", Json::from(bucket)),
            (
                "count",
                Json::from(u64::try_from(objects.len()).unwrap_or(u64::MAX)),
            ),
            ("objects", Json::list(objects)),
        ]))
    }

    pub(super) async fn object_info(&self) -> Result<Json, TaskError> {
        let (bucket, name) = self.object()?;
        let store = self.objects(bucket).await?;
        Ok(with_status(told(&self.info_of(&store, name).await?)))
    }

    async fn info_of(&self, store: &ObjectStore, name: &str) -> Result<ObjectInfo, TaskError> {
        let info = store.info(name).await.map_err(|error| match error.kind() {
            InfoErrorKind::NotFound => not_found("object", name),
            _ => failed("the object cannot be looked at", &error),
        })?;
        if info.deleted {
            return Err(not_found("object", name));
        }
        Ok(info)
    }

    fn object(&self) -> Result<(&str, &str), TaskError> {
        let bucket = required(self.config, "bucket")?;
        let object = match self.config.text("object")? {
            Some(object) => object,
            None => required(self.config, "name")?,
        };
        Ok((bucket, object))
    }

    async fn objects(&self, bucket: &str) -> Result<ObjectStore, TaskError> {
        check_bucket(bucket)?;
        if !self.has_stream(&format!("OBJ_{bucket}")).await? {
            return Err(not_found("bucket", bucket));
        }
        let store = self.jetstream.get_object_store(bucket).await;
        store.map_err(|error| failed("the bucket cannot be used", &error))
    }
}

fn told(info: &ObjectInfo) -> Vec<(&'static str, Json)> {
    vec![
        ("bucket", Json::from(&*info.bucket)),
        ("object", Json::from(&*info.name)),
        (
            "size",
            Json::from(u64::try_from(info.size).unwrap_or(u64::MAX)),
        ),
        ("digest", Json::from(info.digest.as_deref())),
    ]
}

fn with_status(fields: Vec<(&'static str, Json)>) -> Json {
    let status = ("status", Json::from("success"));
    Json::object(std::iter::once(status).chain(fields))
}
