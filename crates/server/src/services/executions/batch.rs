//! Batches of executions, and reruns.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_api::execute::{
    ExecuteBatchRequest, ExecuteBatchResponse, ExecuteBatchResult, ExecuteRequest, ExecuteResponse,
    RerunRequest,
};
use noetl_types::limits::MAX_EXECUTE_BATCH;
use noetl_types::{ErrorCode, ExecutionId, Json, JsonMap, PoolName};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::metrics::StartEntry;
use crate::services::Executions;
use crate::services::executions::StartRequest;
use crate::services::executions::dedup_keys::IdempotencyKey;

/// Executions of a batch that start concurrently, so that they share commits.
const BATCH_CONCURRENCY: usize = 64;

impl Executions {
    /// Starts a batch of executions. A refused one does not stop the others.
    pub async fn execute_batch(
        self: &Arc<Self>,
        ctx: &CallContext,
        batch: ExecuteBatchRequest,
    ) -> Result<ExecuteBatchResponse> {
        let count = batch.executions.len();
        if !(1..=MAX_EXECUTE_BATCH).contains(&count) {
            let text =
                format!("a batch must have 1 to {MAX_EXECUTE_BATCH} executions, not {count}");
            return Err(RuntimeError::invalid(text));
        }
        self.infra.metrics.record_batch_size(count);
        let mut results = Vec::with_capacity(count);
        let mut items = batch.executions.into_iter();
        loop {
            let group: Vec<Json> = items.by_ref().take(BATCH_CONCURRENCY).collect();
            if group.is_empty() {
                break;
            }
            let mut tasks = tokio::task::JoinSet::new();
            for chain in chain_by_dedup_key(results.len(), group) {
                let (this, ctx) = (Arc::clone(self), ctx.clone());
                tasks.spawn(async move {
                    let mut answers = Vec::with_capacity(chain.len());
                    for (index, item) in chain {
                        answers.push((index, this.start_batch_item(&ctx, index, item).await));
                    }
                    answers
                });
            }
            let mut answers: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
            answers.sort_unstable_by_key(|(index, _)| *index);
            let answers = answers.into_iter();
            results.extend(answers.map(|(index, answer)| to_batch_result(index, answer)));
        }
        let count_of = |status: &str| {
            let matching = results.iter().filter(|result| result.status == status);
            to_saturating_u32(matching.count())
        };
        Ok(ExecuteBatchResponse {
            count: to_saturating_u32(count),
            started: count_of("started"),
            duplicates: count_of("duplicate"),
            failed: count_of("error"),
            results,
        })
    }

    async fn start_batch_item(
        &self,
        ctx: &CallContext,
        index: usize,
        item: Json,
    ) -> Result<ExecuteResponse> {
        let request: Result<ExecuteRequest, _> =
            serde_json::to_value(&item).and_then(serde_json::from_value);
        let mut request = request.map_err(|error| RuntimeError::invalid(error.to_string()))?;
        // A batch is answered after all executions have started. It does not wait for their ends.
        request.wait_ms = None;
        let start = StartRequest {
            entry: StartEntry::Batch,
            idempotency_key: ctx.work_id.map(|work| IdempotencyKey::for_work_part(work, index)),
            ..StartRequest::from(request)
        };
        Ok(self.start(ctx, start).await?.answer)
    }

    /// Runs the definition of an execution again, with its input and the overrides of the request.
    pub async fn rerun_execution(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        request: RerunRequest,
    ) -> Result<ExecuteResponse> {
        let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let catalog_id = row.facts.catalog_id.ok_or_else(|| {
            let text = "the execution is a copy whose definition is not available here";
            RuntimeError::refused(ErrorCode::IllegalTransition, text)
        })?;
        let mut workload = self.queries.execution_workload(ctx, execution_id).await?;
        if let Some(overrides) = request.workload {
            workload = deep_merge(&workload, &overrides);
        }
        // The worker of a local run ends with its process.
        let earlier_pool =
            if row.facts.pool.is_local() { PoolName::shared() } else { row.facts.pool };
        let rerun = ExecuteRequest {
            catalog_id: Some(catalog_id),
            payload: Some(workload),
            parent_execution_id: row.facts.parent_execution_id,
            execution_pool: Some(request.execution_pool.unwrap_or(earlier_pool)),
            labels: row.facts.labels,
            priority: Some(row.facts.priority.get()),
            ..ExecuteRequest::default()
        };
        let start = StartRequest {
            rerun_of: Some(execution_id),
            idempotency_key: ctx.work_id.map(|work| IdempotencyKey::for_work_part(work, 0)),
            ..StartRequest::from(rerun)
        };
        Ok(self.start(ctx, start).await?.answer)
    }
}

/// Numbers the items of a batch and groups those that must start one after the other: the first of
/// the items with the same dedup key starts, and the others are its duplicates.
fn chain_by_dedup_key(first_index: usize, items: Vec<Json>) -> Vec<Vec<(usize, Json)>> {
    let mut chains: Vec<Vec<(usize, Json)>> = Vec::with_capacity(items.len());
    let mut chain_of_key = BTreeMap::new();
    for (offset, item) in items.into_iter().enumerate() {
        let key = item.get("dedup").and_then(|dedup| dedup.get("key")).and_then(Json::as_str);
        let chain = match key {
            Some(key) => *chain_of_key.entry(key.to_owned()).or_insert(chains.len()),
            None => chains.len(),
        };
        let numbered = (first_index + offset, item);
        match chains.get_mut(chain) {
            Some(chain) => chain.push(numbered),
            None => chains.push(vec![numbered]),
        }
    }
    chains
}

fn to_batch_result(index: usize, answer: Result<ExecuteResponse>) -> ExecuteBatchResult {
    let index = to_saturating_u32(index);
    match answer {
        Ok(response) => ExecuteBatchResult {
            index,
            status: response.status,
            execution_id: Some(response.execution_id),
            commands_generated: response.commands_generated,
            error: None,
        },
        Err(error) => ExecuteBatchResult {
            index,
            status: "error".into(),
            execution_id: None,
            commands_generated: 0,
            error: Some(error.into_problem().detail),
        },
    }
}

fn to_saturating_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Merges a value over another: maps recursively, all other values are replaced.
fn deep_merge(base: &Json, overlay: &Json) -> Json {
    let (Some(base_map), Some(overlay_map)) = (base.as_map(), overlay.as_map()) else {
        return overlay.clone();
    };
    let mut merged: JsonMap = base_map.clone();
    for (key, value) in overlay_map {
        let merged_value = match base_map.get(key) {
            Some(base_value) => deep_merge(base_value, value),
            None => value.clone(),
        };
        merged.insert(key.clone(), merged_value);
    }
    Json::from(merged)
}

#[cfg(test)]
mod tests;
