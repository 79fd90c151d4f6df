//! What people and programs ask of a server.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, PlaybookPath, Text, TokenId};
use reqwest::Url;
use serde::Serialize;

use super::Client;
use crate::catalog::{
    CatalogItem, CatalogList, ListRequest, RegisterAnswer, RegisterRequest, ResourceRequest,
};
use crate::credential::{
    CredentialList, CredentialView, DeletedCredential, PutCredential, Rotation, RotationRequest,
};
use crate::error::ApiError;
use crate::execute::{ExecuteAnswer, ExecuteRequest, RerunRequest};
use crate::execution::{
    CancelAnswer, CancelRequest, EventPage, ExecutionDetail, StatusView, SteerAnswer, SteerRequest,
};
use crate::explain::{ExplainQuery, Explanation};
use crate::health::Ready;
use crate::paths;
use crate::query::{
    ApprovalsQuery, DetailQuery, EventsQuery, ExecutionList, ExecutionsQuery, NEXT_CURSOR,
    PoolsQuery,
};
use crate::replay::{ReplayAnswer, ReplayQuery};
use crate::runtime::{Pools, RuntimeView, WorkerName};
use crate::signal::{
    ApprovalList, ApproveAnswer, ApproveRequest, BroadcastAnswer, SignalAnswer, SignalRequest,
};
use crate::stream::{FeedAnswer, StreamStatus};
use crate::system::{HealthAnswer, WhoAmI};
use crate::tokens::{CreatedToken, NewToken, TokenList, TokenView};

impl Client {
    /// Keeps a credential.
    pub async fn put_credential(&self, put: &PutCredential) -> Result<CredentialView, ApiError> {
        self.post(self.url(paths::CREDENTIALS)?, put, 0).await
    }

    /// The credentials, without their secrets.
    pub async fn credentials(&self) -> Result<CredentialList, ApiError> {
        self.get(self.url(paths::CREDENTIALS)?).await
    }

    /// Forgets a credential.
    pub async fn delete_credential(&self, name: &str) -> Result<DeletedCredential, ApiError> {
        let request = self.request_by(reqwest::Method::DELETE, self.credential_url(name)?);
        let response = self.accepted(request, 0).await?;
        self.read(response).await
    }

    /// Wraps secrets under the current key.
    pub async fn rotate_credentials(&self) -> Result<Rotation, ApiError> {
        let all = RotationRequest::default();
        self.post(self.url(paths::ROTATE_KEYS)?, &all, 0).await
    }

    /// The address of a credential. A name may hold anything; as a segment of the path it is escaped.
    pub(super) fn credential_url(&self, name: &str) -> Result<Url, ApiError> {
        let mut url = self.url(paths::CREDENTIALS)?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(name);
        }
        Ok(url)
    }

    /// Makes a token. It is in this answer and nowhere else.
    pub async fn create_token(&self, request: &NewToken) -> Result<CreatedToken, ApiError> {
        self.post(self.url(paths::TOKENS)?, request, 0).await
    }

    /// A page of the tokens.
    pub async fn tokens(&self, cursor: Option<&Text>) -> Result<TokenList, ApiError> {
        let cursor = cursor.map(|cursor| ("cursor".to_owned(), cursor.to_string()));
        let pairs = cursor.into_iter().collect::<Vec<_>>();
        self.get(with_query(self.url(paths::TOKENS)?, pairs)).await
    }

    /// Takes a token back.
    pub async fn revoke_token(&self, token_id: TokenId) -> Result<TokenView, ApiError> {
        let path = paths::TOKEN.replace("{token_id}", &token_id.to_string());
        let request = self.request_by(reqwest::Method::DELETE, self.url(&path)?);
        let response = self.accepted(request, 0).await?;
        self.read(response).await
    }

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

    /// A run as of a moment.
    pub async fn replay_state(&self, query: &ReplayQuery) -> Result<ReplayAnswer, ApiError> {
        let url = with_query(self.url(paths::REPLAY_STATE)?, query.pairs());
        self.get(url).await
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

    /// Runs a definition again, with the input of an earlier run.
    pub async fn rerun(
        &self,
        execution_id: ExecutionId,
        request: &RerunRequest,
    ) -> Result<ExecuteAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_RERUN, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Holds a run.
    pub async fn pause(
        &self,
        execution_id: ExecutionId,
        request: &SteerRequest,
    ) -> Result<SteerAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_PAUSE, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Lets a run go on.
    pub async fn resume(
        &self,
        execution_id: ExecutionId,
        request: &SteerRequest,
    ) -> Result<SteerAnswer, ApiError> {
        let url = self.of(paths::EXECUTION_RESUME, execution_id)?;
        self.post(url, request, 0).await
    }

    /// Why a run waits, or how it came to its end.
    pub async fn explain(
        &self,
        execution_id: ExecutionId,
        query: &ExplainQuery,
    ) -> Result<Explanation, ApiError> {
        let url = self.of(paths::EXECUTION_EXPLAIN, execution_id)?;
        self.get(with_query(url, pairs(query)?)).await
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

    /// All that waits for a person.
    pub async fn approvals(&self) -> Result<ApprovalList, ApiError> {
        let mut query = ApprovalsQuery::default();
        let mut all = self.approvals_page(&query).await?;
        while let Some(cursor) = all.next_cursor.take() {
            query.cursor = Some(cursor);
            let page = self.approvals_page(&query).await?;
            all.approvals.extend(page.approvals);
            all.next_cursor = page.next_cursor;
        }
        Ok(all)
    }

    /// A page of what waits for a person, perhaps in one run alone.
    pub async fn approvals_page(&self, query: &ApprovalsQuery) -> Result<ApprovalList, ApiError> {
        let url = with_query(self.url(paths::APPROVALS)?, pairs(query)?);
        self.get(url).await
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

    /// A page of the definitions, in the order of their paths.
    pub async fn catalog_list(&self, request: &ListRequest) -> Result<CatalogList, ApiError> {
        self.post(self.url(paths::CATALOG_LIST)?, request, 0).await
    }

    /// A page of the versions of a definition, newest first.
    pub async fn catalog_versions(
        &self,
        path: &PlaybookPath,
        limit: PageLimit,
        cursor: Option<&Text>,
    ) -> Result<CatalogList, ApiError> {
        let address = paths::CATALOG_OF.replace("{*path}", &format!("{path}/versions"));
        let mut query = vec![("limit", limit.get().to_string())];
        if let Some(cursor) = cursor {
            query.push(("cursor", cursor.to_string()));
        }
        self.get(with_query(self.url(&address)?, query)).await
    }

    /// Asks a worker to finish what it has and leave.
    pub async fn drain(&self, worker: &WorkerName) -> Result<RuntimeView, ApiError> {
        self.post(self.url(paths::POOL_DRAIN)?, worker, 0).await
    }

    /// Who makes the request.
    pub async fn whoami(&self) -> Result<WhoAmI, ApiError> {
        self.get(self.url(paths::WHOAMI)?).await
    }

    /// How the server is, to whoever it knows. One that is unwell says so, which is an answer too.
    pub async fn health(&self) -> Result<HealthAnswer, ApiError> {
        let request = self.request(self.url(paths::API_HEALTH)?);
        let response = self.send(request, 0).await?;
        self.read(response).await
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

    /// Where the stream of all events stands, as the internal API tells it.
    pub async fn stream_standing(&self) -> Result<StreamStatus, ApiError> {
        self.get(self.url(paths::STREAM_STANDING)?).await
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
pub(super) fn pairs<Q: Serialize>(query: &Q) -> Result<Vec<(String, String)>, ApiError> {
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
