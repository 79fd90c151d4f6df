//! What people and programs ask of a server.

use noetl_types::{ExecutionId, FeedPosition, Text};
use reqwest::Url;
use serde::Serialize;

use super::Client;
use crate::catalog::{CatalogItem, RegisterAnswer, RegisterRequest, ResourceRequest};
use crate::error::ApiError;
use crate::execute::{ExecuteAnswer, ExecuteRequest};
use crate::execution::{CancelAnswer, CancelRequest, EventPage, ExecutionDetail, StatusView};
use crate::health::Ready;
use crate::paths;
use crate::query::{
    DetailQuery, EventsQuery, ExecutionList, ExecutionsQuery, NEXT_CURSOR, PoolsQuery,
};
use crate::runtime::Pools;
use crate::signal::{
    ApprovalList, ApproveAnswer, ApproveRequest, BroadcastAnswer, SignalAnswer, SignalRequest,
};
use crate::stream::{FeedAnswer, StreamStatus};

impl Client {
    /// Starts a run.
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ExecuteAnswer, ApiError> {
        let wait_ms = request.wait_ms.unwrap_or(0);
        self.post(self.url(paths::EXECUTE)?, request, wait_ms).await
    }

    /// A page of the runs, newest first.
    pub async fn executions(&self, query: &ExecutionsQuery) -> Result<ExecutionList, ApiError> {
        let url = with_query(self.url(paths::EXECUTIONS)?, pairs(query)?);
        let response = self.accepted(self.request(url), 0).await?;
        let next = response.headers().get(NEXT_CURSOR);
        let next_cursor = next.and_then(|next| next.to_str().ok()).map(Text::from);
        Ok(ExecutionList {
            executions: self.read(response).await?,
            next_cursor,
        })
    }

    /// A run with a page of its log.
    pub async fn execution(
        &self,
        execution_id: ExecutionId,
        query: &DetailQuery,
    ) -> Result<ExecutionDetail, ApiError> {
        let url = self.of(paths::EXECUTION, execution_id)?;
        self.get(with_query(url, pairs(query)?)).await
    }

    /// Where a run stands.
    pub async fn status(&self, execution_id: ExecutionId) -> Result<StatusView, ApiError> {
        self.get(self.of(paths::EXECUTION_STATUS, execution_id)?)
            .await
    }

    /// A page of the log of a run.
    pub async fn events(
        &self,
        execution_id: ExecutionId,
        query: &EventsQuery,
    ) -> Result<EventPage, ApiError> {
        let url = self.of(paths::EXECUTION_EVENTS, execution_id)?;
        self.get(with_query(url, pairs(query)?)).await
    }

    /// Ends a run.
    pub async fn cancel(
        &self,
        execution_id: ExecutionId,
        request: &CancelRequest,
    ) -> Result<CancelAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_CANCEL, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Sends a signal to a run.
    pub async fn signal(
        &self,
        execution_id: ExecutionId,
        request: &SignalRequest,
    ) -> Result<SignalAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_SIGNAL, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Sends a signal to every run that waits for it.
    pub async fn broadcast(&self, request: &SignalRequest) -> Result<BroadcastAnswer, ApiError> {
        self.post(self.url(paths::SIGNALS)?, request, 0).await
    }

    /// Decides about something that a run waits for.
    pub async fn approve(
        &self,
        execution_id: ExecutionId,
        request: &ApproveRequest,
    ) -> Result<ApproveAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_APPROVE, execution_id)?;
        self.post(url, request, 0).await
    }

    /// What waits for a person.
    pub async fn approvals(&self) -> Result<ApprovalList, ApiError> {
        self.get(self.url(paths::APPROVALS)?).await
    }

    /// Registers a definition.
    pub async fn catalog_register(
        &self,
        request: &RegisterRequest,
    ) -> Result<RegisterAnswer, ApiError> {
        self.post(self.url(paths::CATALOG_REGISTER)?, request, 0)
            .await
    }

    /// A definition.
    pub async fn catalog_resource(
        &self,
        request: &ResourceRequest,
    ) -> Result<CatalogItem, ApiError> {
        self.post(self.url(paths::CATALOG_RESOURCE)?, request, 0)
            .await
    }

    /// The workers, and how busy their pools are.
    pub async fn pools(&self, query: &PoolsQuery) -> Result<Pools, ApiError> {
        self.get(with_query(self.url(paths::POOLS)?, pairs(query)?))
            .await
    }

    /// Where the stream of all events stands.
    pub async fn stream_status(&self) -> Result<StreamStatus, ApiError> {
        self.get(self.url(paths::STREAM_STATUS)?).await
    }

    /// The feed of all events behind a place, or from its end where none is given. It waits for
    /// something new as long as it is told to.
    pub async fn stream_feed(
        &self,
        after: Option<FeedPosition>,
        limit: u32,
        wait_ms: u64,
    ) -> Result<FeedAnswer, ApiError> {
        let mut pairs = vec![
            ("limit", limit.to_string()),
            ("wait_ms", wait_ms.to_string()),
        ];
        if let Some(FeedPosition { tx, position }) = after {
            pairs.push(("after", format!("{tx}.{position}")));
        }
        let url = with_query(self.url(paths::STREAM_FEED)?, pairs);
        let response = self.accepted(self.request(url), wait_ms).await?;
        self.read(response).await
    }

    /// Has the whole log published again.
    pub async fn stream_rebuild(&self) -> Result<StreamStatus, ApiError> {
        let nothing = serde_json::Map::new();
        self.post(self.url(paths::STREAM_REBUILD)?, &nothing, 0)
            .await
    }

    /// Whether the server can work. One that cannot says why, which is an answer too.
    pub async fn readyz(&self) -> Result<Ready, ApiError> {
        let request = self.request(self.url(paths::READYZ)?);
        let response = self.send(request, 0).await?;
        self.read(response).await
    }

    pub(super) fn of(&self, path: &str, execution_id: ExecutionId) -> Result<Url, ApiError> {
        self.url(&path.replace("{execution_id}", &execution_id.to_string()))
    }
}

/// The parameters of a query, as texts.
fn pairs<Q: Serialize>(query: &Q) -> Result<Vec<(String, String)>, ApiError> {
    let value = serde_json::to_value(query)
        .map_err(|error| ApiError::Unreadable(format!("the request: {error}").into()))?;
    let fields = value.as_object().cloned().unwrap_or_default();
    let pairs = fields.into_iter().map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (name, text)
    });
    Ok(pairs.collect())
}

/// An address with parameters.
pub(super) fn with_query<K: AsRef<str>, V: AsRef<str>>(
    mut url: Url,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Url {
    let mut pairs = pairs.into_iter().peekable();
    if pairs.peek().is_some() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    url
}
