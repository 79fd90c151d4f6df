//! Client calls of users and programs.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, PlaybookPath, Text, TokenId};
use reqwest::Url;
use serde::Serialize;

use super::Client;
use crate::catalog::{
    CatalogList, CatalogListRequest, CatalogResource, CatalogResourceRequest, RegisterRequest,
    RegisterResponse,
};
use crate::credential::{
    CredentialDeleteResponse, CredentialList, CredentialPutRequest, CredentialView,
    RotationRequest, RotationSummary,
};
use crate::error::ApiError;
use crate::execute::{ExecuteRequest, ExecuteResponse, RerunRequest};
use crate::execution::{
    CancelRequest, CancelResponse, ControlRequest, ControlResponse, EventPage, ExecutionDetail,
    ExecutionStatusView,
};
use crate::explain::{ExecutionExplanation, ExplainQuery};
use crate::health::ReadinessResponse;
use crate::paths;
use crate::query::{
    ApprovalsQuery, EventsQuery, ExecutionDetailQuery, ExecutionList, ExecutionsQuery,
    NEXT_CURSOR_HEADER, PoolsQuery,
};
use crate::replay::{ReplayQuery, ReplayResponse};
use crate::runtime::{PoolListResponse, RuntimeView, WorkerName};
use crate::signal::{
    ApprovalList, ApproveRequest, ApproveResponse, BroadcastResponse, SignalRequest, SignalResponse,
};
use crate::stream::{FeedResponse, StreamStatus};
use crate::system::{HealthResponse, WhoAmI};
use crate::tokens::{CreateTokenRequest, CreatedToken, TokenList, TokenView};

impl Client {
    /// Stores a credential.
    pub async fn put_credential(
        &self,
        request: &CredentialPutRequest,
    ) -> Result<CredentialView, ApiError> {
        self.post(self.url(paths::CREDENTIALS)?, request, 0).await
    }

    /// Lists credentials, without their secrets.
    pub async fn list_credentials(&self) -> Result<CredentialList, ApiError> {
        self.get(self.url(paths::CREDENTIALS)?).await
    }

    /// Deletes a credential.
    pub async fn delete_credential(
        &self,
        name: &str,
    ) -> Result<CredentialDeleteResponse, ApiError> {
        let request = self.request_with_method(reqwest::Method::DELETE, self.credential_url(name)?);
        let response = self.send_checked(request, 0).await?;
        self.read_json(response).await
    }

    /// Wraps all secrets with the current key.
    pub async fn rotate_credentials(&self) -> Result<RotationSummary, ApiError> {
        let all = RotationRequest::default();
        self.post(self.url(paths::ROTATE_KEYS)?, &all, 0).await
    }

    /// Returns the URL of a credential. A name may contain any character, so it is escaped as a
    /// path segment.
    pub(super) fn credential_url(&self, name: &str) -> Result<Url, ApiError> {
        let mut url = self.url(paths::CREDENTIALS)?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(name);
        }
        Ok(url)
    }

    /// Creates a token. The secret is returned only in this response.
    pub async fn create_token(
        &self,
        request: &CreateTokenRequest,
    ) -> Result<CreatedToken, ApiError> {
        self.post(self.url(paths::TOKENS)?, request, 0).await
    }

    /// Returns a page of tokens.
    pub async fn list_tokens(&self, cursor: Option<&Text>) -> Result<TokenList, ApiError> {
        let cursor = cursor.map(|cursor| ("cursor".to_owned(), cursor.to_string()));
        let pairs = cursor.into_iter().collect::<Vec<_>>();
        self.get(with_query(self.url(paths::TOKENS)?, pairs)).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, token_id: TokenId) -> Result<TokenView, ApiError> {
        let path = paths::TOKEN.replace("{token_id}", &token_id.to_string());
        let request = self.request_with_method(reqwest::Method::DELETE, self.url(&path)?);
        let response = self.send_checked(request, 0).await?;
        self.read_json(response).await
    }

    /// Starts an execution.
    pub async fn execute_playbook(
        &self,
        request: &ExecuteRequest,
    ) -> Result<ExecuteResponse, ApiError> {
        let wait_ms = request.wait_ms.unwrap_or(0);
        self.post(self.url(paths::EXECUTE)?, request, wait_ms).await
    }

    /// Returns a page of executions, newest first.
    pub async fn list_executions(
        &self,
        query: &ExecutionsQuery,
    ) -> Result<ExecutionList, ApiError> {
        let url = with_query(self.url(paths::EXECUTIONS)?, to_query_pairs(query)?);
        let response = self.send_checked(self.get_request(url), 0).await?;
        let next = response.headers().get(NEXT_CURSOR_HEADER);
        let next_cursor = next.and_then(|next| next.to_str().ok()).map(Text::from);
        Ok(ExecutionList { executions: self.read_json(response).await?, next_cursor })
    }

    /// Returns an execution with a page of its log.
    pub async fn get_execution(
        &self,
        execution_id: ExecutionId,
        query: &ExecutionDetailQuery,
    ) -> Result<ExecutionDetail, ApiError> {
        let url = self.execution_url(paths::EXECUTION, execution_id)?;
        self.get(with_query(url, to_query_pairs(query)?)).await
    }

    /// Returns the status of an execution.
    pub async fn get_execution_status(
        &self,
        execution_id: ExecutionId,
    ) -> Result<ExecutionStatusView, ApiError> {
        self.get(self.execution_url(paths::EXECUTION_STATUS, execution_id)?).await
    }

    /// Returns a page of the events of an execution.
    pub async fn list_events(
        &self,
        execution_id: ExecutionId,
        query: &EventsQuery,
    ) -> Result<EventPage, ApiError> {
        let url = self.execution_url(paths::EXECUTION_EVENTS, execution_id)?;
        self.get(with_query(url, to_query_pairs(query)?)).await
    }

    /// Returns the state of an execution at a point of its log.
    pub async fn replay_state(&self, query: &ReplayQuery) -> Result<ReplayResponse, ApiError> {
        let url = with_query(self.url(paths::REPLAY_STATE)?, query.to_query_pairs());
        self.get(url).await
    }

    /// Cancels an execution.
    pub async fn cancel_execution(
        &self,
        execution_id: ExecutionId,
        request: &CancelRequest,
    ) -> Result<CancelResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_CANCEL, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Runs a definition again with the input of an earlier execution.
    pub async fn rerun_execution(
        &self,
        execution_id: ExecutionId,
        request: &RerunRequest,
    ) -> Result<ExecuteResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_RERUN, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Pauses an execution.
    pub async fn pause_execution(
        &self,
        execution_id: ExecutionId,
        request: &ControlRequest,
    ) -> Result<ControlResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_PAUSE, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Resumes an execution.
    pub async fn resume_execution(
        &self,
        execution_id: ExecutionId,
        request: &ControlRequest,
    ) -> Result<ControlResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_RESUME, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Explains why an execution waits, or how it ended.
    pub async fn explain_execution(
        &self,
        execution_id: ExecutionId,
        query: &ExplainQuery,
    ) -> Result<ExecutionExplanation, ApiError> {
        let url = self.execution_url(paths::EXECUTION_EXPLAIN, execution_id)?;
        self.get(with_query(url, to_query_pairs(query)?)).await
    }

    /// Sends a signal to an execution.
    pub async fn send_signal(
        &self,
        execution_id: ExecutionId,
        request: &SignalRequest,
    ) -> Result<SignalResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_SIGNAL, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Sends a signal to every execution that waits for it.
    pub async fn broadcast_signal(
        &self,
        request: &SignalRequest,
    ) -> Result<BroadcastResponse, ApiError> {
        self.post(self.url(paths::SIGNALS)?, request, 0).await
    }

    /// Decides an approval.
    pub async fn submit_approval(
        &self,
        execution_id: ExecutionId,
        request: &ApproveRequest,
    ) -> Result<ApproveResponse, ApiError> {
        let url = self.execution_url(paths::EXECUTION_APPROVE, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Returns all pending approvals.
    pub async fn list_all_approvals(&self) -> Result<ApprovalList, ApiError> {
        let mut query = ApprovalsQuery::default();
        let mut all = self.list_approvals(&query).await?;
        while let Some(cursor) = all.next_cursor.take() {
            query.cursor = Some(cursor);
            let page = self.list_approvals(&query).await?;
            all.approvals.extend(page.approvals);
            all.next_cursor = page.next_cursor;
        }
        Ok(all)
    }

    /// Returns a page of pending approvals, optionally of one execution.
    pub async fn list_approvals(&self, query: &ApprovalsQuery) -> Result<ApprovalList, ApiError> {
        let url = with_query(self.url(paths::APPROVALS)?, to_query_pairs(query)?);
        self.get(url).await
    }

    /// Registers a definition.
    pub async fn catalog_register(
        &self,
        request: &RegisterRequest,
    ) -> Result<RegisterResponse, ApiError> {
        self.post(self.url(paths::CATALOG_REGISTER)?, request, 0).await
    }

    /// Returns a definition.
    pub async fn catalog_resource(
        &self,
        request: &CatalogResourceRequest,
    ) -> Result<CatalogResource, ApiError> {
        self.post(self.url(paths::CATALOG_RESOURCE)?, request, 0).await
    }

    /// Returns a page of definitions, in the order of their paths.
    pub async fn catalog_list(
        &self,
        request: &CatalogListRequest,
    ) -> Result<CatalogList, ApiError> {
        self.post(self.url(paths::CATALOG_LIST)?, request, 0).await
    }

    /// Returns a page of the versions of a definition, newest first.
    pub async fn catalog_versions(
        &self,
        path: &PlaybookPath,
        limit: PageLimit,
        cursor: Option<&Text>,
    ) -> Result<CatalogList, ApiError> {
        let address = paths::CATALOG_DETAIL.replace("{*path}", &format!("{path}/versions"));
        let mut query = vec![("limit", limit.get().to_string())];
        if let Some(cursor) = cursor {
            query.push(("cursor", cursor.to_string()));
        }
        self.get(with_query(self.url(&address)?, query)).await
    }

    /// Asks a worker to finish its commands and stop.
    pub async fn drain_worker(&self, worker: &WorkerName) -> Result<RuntimeView, ApiError> {
        self.post(self.url(paths::POOL_DRAIN)?, worker, 0).await
    }

    /// Returns the identity of the caller.
    pub async fn whoami(&self) -> Result<WhoAmI, ApiError> {
        self.get(self.url(paths::WHOAMI)?).await
    }

    /// Returns the health of the server, for authenticated callers. An unhealthy status is not an
    /// error.
    pub async fn get_health(&self) -> Result<HealthResponse, ApiError> {
        let request = self.get_request(self.url(paths::API_HEALTH)?);
        let response = self.send(request, 0).await?;
        self.read_json(response).await
    }

    /// Lists workers and the load of their pools.
    pub async fn list_pools(&self, query: &PoolsQuery) -> Result<PoolListResponse, ApiError> {
        self.get(with_query(self.url(paths::POOLS)?, to_query_pairs(query)?)).await
    }

    /// Returns the status of event publishing.
    pub async fn stream_status(&self) -> Result<StreamStatus, ApiError> {
        self.get(self.url(paths::STREAM_STATUS)?).await
    }

    /// Returns the feed of all events after a position, or from its end if none is given. Waits up
    /// to `wait_ms` for new events.
    pub async fn stream_feed(
        &self,
        after: Option<FeedPosition>,
        limit: u32,
        wait_ms: u64,
    ) -> Result<FeedResponse, ApiError> {
        let mut pairs = vec![("limit", limit.to_string()), ("wait_ms", wait_ms.to_string())];
        if let Some(FeedPosition { tx, position }) = after {
            pairs.push(("after", format!("{tx}.{position}")));
        }
        let url = with_query(self.url(paths::STREAM_FEED)?, pairs);
        let response = self.send_checked(self.get_request(url), wait_ms).await?;
        self.read_json(response).await
    }

    /// Returns the status of event publishing from the internal API.
    pub async fn internal_stream_status(&self) -> Result<StreamStatus, ApiError> {
        self.get(self.url(paths::INTERNAL_STREAM_STATUS)?).await
    }

    /// Publishes the whole log again.
    pub async fn stream_rebuild(&self) -> Result<StreamStatus, ApiError> {
        let empty_body = serde_json::Map::new();
        self.post(self.url(paths::STREAM_REBUILD)?, &empty_body, 0).await
    }

    /// Returns the readiness of the server. A server that is not ready is not an error.
    pub async fn check_readiness(&self) -> Result<ReadinessResponse, ApiError> {
        let request = self.get_request(self.url(paths::READYZ)?);
        let response = self.send(request, 0).await?;
        self.read_json(response).await
    }

    pub(super) fn execution_url(
        &self,
        path: &str,
        execution_id: ExecutionId,
    ) -> Result<Url, ApiError> {
        self.url(&path.replace("{execution_id}", &execution_id.to_string()))
    }
}

/// Converts a query to its parameters.
pub(super) fn to_query_pairs<Q: Serialize>(query: &Q) -> Result<Vec<(String, String)>, ApiError> {
    let value = serde_json::to_value(query).map_err(|error| {
        ApiError::Unreadable(format!("cannot serialize the request: {error}").into())
    })?;
    let fields = value.as_object().cloned().unwrap_or_default();
    let pairs = fields.into_iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name, text)
    });
    Ok(pairs.collect())
}

/// Adds parameters to a URL.
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
