//! Client calls of users and programs.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, PlaybookPath, Text, TokenId};
use reqwest::Url;

use super::Client;
use super::call::{client_calls, to_query_pairs, with_query};
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
use crate::output::{OutputPage, OutputQuery};
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

client_calls! {
    /// Stores a credential.
    put_credential = post CREDENTIALS (CredentialPutRequest) -> CredentialView;
    /// Lists credentials, without their secrets.
    list_credentials = get CREDENTIALS -> CredentialList;
    /// Creates a token. The secret is returned only in this response.
    create_token = post TOKENS (CreateTokenRequest) -> CreatedToken;
    /// Returns an execution with a page of its log.
    get_execution = get EXECUTION [execution_id] (ExecutionDetailQuery) -> ExecutionDetail;
    /// Returns the status of an execution.
    get_execution_status = get EXECUTION_STATUS [execution_id] -> ExecutionStatusView;
    /// Returns a page of the events of an execution.
    list_events = get EXECUTION_EVENTS [execution_id] (EventsQuery) -> EventPage;
    /// Returns a page of the output that tasks of an execution sent while they ran.
    list_output = get EXECUTION_LOGS [execution_id] (OutputQuery) -> OutputPage;
    /// Explains why an execution waits, or how it ended.
    explain_execution =
        get EXECUTION_EXPLAIN [execution_id] (ExplainQuery) -> ExecutionExplanation;
    /// Cancels an execution.
    cancel_execution = post EXECUTION_CANCEL [execution_id] (CancelRequest) -> CancelResponse;
    /// Runs a definition again with the input of an earlier execution.
    rerun_execution = post EXECUTION_RERUN [execution_id] (RerunRequest) -> ExecuteResponse;
    /// Pauses an execution.
    pause_execution = post EXECUTION_PAUSE [execution_id] (ControlRequest) -> ControlResponse;
    /// Resumes an execution.
    resume_execution = post EXECUTION_RESUME [execution_id] (ControlRequest) -> ControlResponse;
    /// Sends a signal to an execution.
    send_signal = post EXECUTION_SIGNAL [execution_id] (SignalRequest) -> SignalResponse;
    /// Sends a signal to every execution that waits for it.
    broadcast_signal = post SIGNALS (SignalRequest) -> BroadcastResponse;
    /// Decides an approval.
    submit_approval = post EXECUTION_APPROVE [execution_id] (ApproveRequest) -> ApproveResponse;
    /// Returns a page of pending approvals, optionally of one execution.
    list_approvals = get APPROVALS (ApprovalsQuery) -> ApprovalList;
    /// Registers a definition.
    catalog_register = post CATALOG_REGISTER (RegisterRequest) -> RegisterResponse;
    /// Returns a definition.
    catalog_resource = post CATALOG_RESOURCE (CatalogResourceRequest) -> CatalogResource;
    /// Returns a page of definitions, in the order of their paths.
    catalog_list = post CATALOG_LIST (CatalogListRequest) -> CatalogList;
    /// Asks a worker to finish its commands and stop.
    drain_worker = post POOL_DRAIN (WorkerName) -> RuntimeView;
    /// Returns the identity of the caller.
    whoami = get WHOAMI -> WhoAmI;
    /// Lists workers and the load of their pools.
    list_pools = get POOLS (PoolsQuery) -> PoolListResponse;
    /// Returns the status of event publishing.
    stream_status = get STREAM_STATUS -> StreamStatus;
    /// Returns the status of event publishing from the internal API.
    internal_stream_status = get INTERNAL_STREAM_STATUS -> StreamStatus;
}

impl Client {
    /// Deletes a credential.
    pub async fn delete_credential(
        &self,
        name: &str,
    ) -> Result<CredentialDeleteResponse, ApiError> {
        self.delete(self.credential_url(name)?).await
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

    /// Returns a page of tokens.
    pub async fn list_tokens(&self, cursor: Option<&Text>) -> Result<TokenList, ApiError> {
        let cursor = cursor.map(|cursor| ("cursor", cursor.as_str()));
        self.get(with_query(self.url(paths::TOKENS)?, cursor)).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, token_id: TokenId) -> Result<TokenView, ApiError> {
        let path = paths::TOKEN.replace("{token_id}", &token_id.to_string());
        self.delete(self.url(&path)?).await
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

    /// Returns the state of an execution at a point of its log.
    pub async fn replay_state(&self, query: &ReplayQuery) -> Result<ReplayResponse, ApiError> {
        let url = with_query(self.url(paths::REPLAY_STATE)?, query.to_query_pairs());
        self.get(url).await
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

    /// Returns the health of the server, for authenticated callers. An unhealthy status is not an
    /// error.
    pub async fn get_health(&self) -> Result<HealthResponse, ApiError> {
        let response = self.send(self.get_request(self.url(paths::API_HEALTH)?), 0).await?;
        self.read_json(response).await
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

    /// Publishes the whole log again.
    pub async fn stream_rebuild(&self) -> Result<StreamStatus, ApiError> {
        let empty_body = serde_json::Map::new();
        self.post(self.url(paths::STREAM_REBUILD)?, &empty_body, 0).await
    }

    /// Returns the readiness of the server. A server that is not ready is not an error.
    pub async fn check_readiness(&self) -> Result<ReadinessResponse, ApiError> {
        let response = self.send(self.get_request(self.url(paths::READYZ)?), 0).await?;
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
