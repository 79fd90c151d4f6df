//! Many executions at once, and executions once more.

use noetl_api::execute::{
    ExecuteAnswer, ExecuteBatch, ExecuteBatchAnswer, ExecuteRequest, ExecuteVerdict, RerunRequest,
};
use noetl_types::limits::MAX_EXECUTE_BATCH;
use noetl_types::{ErrorCode, ExecutionId, Json, JsonMap};

use super::claim::Once;
use super::start::Launch;
use super::{Runtime, RuntimeError};
use crate::metrics::Entry;

/// Executions of a batch that begin at once, so that they share commits.
const AT_ONCE: usize = 64;

impl Runtime {
    /// Starts many executions. Each stands for itself: one that is refused stops no other.
    pub async fn execute_batch(
        &self,
        batch: ExecuteBatch,
    ) -> Result<ExecuteBatchAnswer, RuntimeError> {
        let count = batch.executions.len();
        if !(1..=MAX_EXECUTE_BATCH).contains(&count) {
            let text = format!("a batch has 1 to {MAX_EXECUTE_BATCH} executions, not {count}");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        self.core.metrics.batched(count);
        let mut results = Vec::with_capacity(count);
        let mut wanted = batch.executions.into_iter();
        loop {
            let group: Vec<Json> = wanted.by_ref().take(AT_ONCE).collect();
            if group.is_empty() {
                break;
            }
            let mut begun = tokio::task::JoinSet::new();
            for (place, wanted) in group.into_iter().enumerate() {
                let (runtime, index) = (self.clone(), results.len() + place);
                begun.spawn(async move { (index, runtime.one_of_many(index, wanted).await) });
            }
            let mut verdicts = begun.join_all().await;
            verdicts.sort_unstable_by_key(|(index, _)| *index);
            let verdicts = verdicts.into_iter();
            results.extend(verdicts.map(|(index, answer)| verdict(index, answer)));
        }
        let count_of = |status: &str| {
            let hits = results.iter().filter(|result| result.status == status);
            number(hits.count())
        };
        Ok(ExecuteBatchAnswer {
            count: number(count),
            started: count_of("started"),
            duplicates: count_of("duplicate"),
            failed: count_of("error"),
            results,
        })
    }

    async fn one_of_many(&self, index: usize, wanted: Json) -> Result<ExecuteAnswer, RuntimeError> {
        let request: Result<ExecuteRequest, _> =
            serde_json::to_value(&wanted).and_then(serde_json::from_value);
        let mut request = request
            .map_err(|error| RuntimeError::refused(ErrorCode::Validation, error.to_string()))?;
        // A batch is answered once all have begun, whenever they end.
        request.wait_ms = None;
        let launch = Launch {
            entry: Entry::Batch,
            once: self.work.map(|work| Once::of_work(work, index)),
            ..Launch::default()
        };
        self.launch(request, launch).await
    }

    /// Runs the definition of an execution once more, with its input and what is laid over it.
    pub async fn rerun(
        &self,
        execution_id: ExecutionId,
        request: RerunRequest,
    ) -> Result<ExecuteAnswer, RuntimeError> {
        let row = self.execution_row(execution_id).await?;
        let catalog_id = row.facts.catalog_id.ok_or_else(|| {
            let text = "the execution is a copy, whose definition is not here";
            RuntimeError::refused(ErrorCode::IllegalTransition, text)
        })?;
        let mut workload = self.workload_of(execution_id).await?;
        if let Some(over) = request.workload {
            workload = overlaid(&workload, &over);
        }
        let again = ExecuteRequest {
            catalog_id: Some(catalog_id),
            payload: Some(workload),
            parent_execution_id: row.facts.parent_execution_id,
            execution_pool: Some(row.facts.pool),
            labels: row.facts.labels,
            priority: Some(row.facts.priority.get()),
            ..ExecuteRequest::default()
        };
        let launch = Launch {
            rerun_of: Some(execution_id),
            once: self.work.map(|work| Once::of_work(work, 0)),
            ..Launch::default()
        };
        self.launch(again, launch).await
    }
}

fn verdict(index: usize, answer: Result<ExecuteAnswer, RuntimeError>) -> ExecuteVerdict {
    let index = number(index);
    match answer {
        Ok(begun) => ExecuteVerdict {
            index,
            status: begun.status,
            execution_id: Some(begun.execution_id),
            commands_generated: begun.commands_generated,
            error: None,
        },
        Err(error) => ExecuteVerdict {
            index,
            status: "error".into(),
            execution_id: None,
            commands_generated: 0,
            error: Some(error.into_problem().detail),
        },
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Lays a value over another: maps deeply, everything else in place of what was there.
fn overlaid(under: &Json, over: &Json) -> Json {
    let (Some(below), Some(above)) = (under.as_map(), over.as_map()) else {
        return over.clone();
    };
    let mut whole: JsonMap = below.clone();
    for (key, value) in above {
        let merged = match below.get(key) {
            Some(known) => overlaid(known, value),
            None => value.clone(),
        };
        whole.insert(key.clone(), merged);
    }
    Json::from(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_laid_over_each_other_deeply() {
        let json = |text: &str| noetl_types::json::parse(text.as_bytes()).unwrap();
        let under = json(r#"{"a":{"x":1,"y":[1]},"b":2}"#);
        let over = json(r#"{"a":{"y":[2],"z":3},"c":null}"#);
        let whole = json(r#"{"a":{"x":1,"y":[2],"z":3},"b":2,"c":null}"#);
        assert_eq!(overlaid(&under, &over), whole);
    }
}
