//! Events survive encoding to records and decoding back.

mod suspension;

use std::sync::Arc;

use noetl_playbook::command_context::{CommandContext, StepDataLabels};
use noetl_playbook::model::{CacheScope, ConcurrencyOverlap, ToolKind};
use noetl_types::record::EventRecord;
use noetl_types::report::{FrameReport, RowError, TaskReport, TaskStatus};
use noetl_types::{
    ByteSize, CatalogId, CommandId, Digest, ErrorCode, EventId, EventName, EventType, ExecutionId,
    Json, JsonMap, Millis, OrganizationId, PlaybookPath, PoolName, Seq, StepName, TaskError,
    TaskErrorKind, TenantId, Text, Timestamp, WorkerId,
};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::cache::{CacheKey, CachedResult, ResultOrigin};
use crate::payload::Reference;
use crate::slot::{ExecutionSlot, Slot};

fn arb_json() -> BoxedStrategy<Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-1e9..1e9_f64).prop_map(|number| Json::from_f64(number).unwrap()),
        "[a-z\"\\\\{}é ]{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            arb_map(inner).prop_map(Json::from),
        ]
    })
    .boxed()
}

fn arb_map(value: impl Strategy<Value = Json>) -> impl Strategy<Value = JsonMap> {
    let key = "[a-z.]{1,4}".prop_map(Arc::<str>::from);
    prop::collection::btree_map(key, value, 0..4)
}

/// Never null, since the codec does not distinguish an absent field from a null one.
fn arb_non_null_json() -> BoxedStrategy<Json> {
    arb_json().prop_filter("null is absent", |value| !value.is_null()).boxed()
}

fn arb_text() -> BoxedStrategy<Text> {
    "[a-zA-Zé '\"]{0,12}".prop_map(Text::from).boxed()
}

/// Draws from few names most of the time, so that events of a sequence share steps.
fn arb_step_name() -> BoxedStrategy<StepName> {
    let name = prop_oneof![3 => "[a-d]", 1 => "[a-z_][a-z0-9_-]{0,6}"];
    name.prop_map(|name| StepName::new(name).unwrap()).boxed()
}

/// Draws from few ids most of the time, so that events of a sequence share commands.
fn arb_event_id() -> BoxedStrategy<EventId> {
    let id = prop_oneof![3 => 1..6_i64, 1 => 1..i64::MAX];
    id.prop_map(|id| EventId::new(id).unwrap()).boxed()
}

/// A pass number, an iteration index or a count.
fn arb_count() -> BoxedStrategy<u32> {
    prop_oneof![3 => 0..3_u32, 1 => any::<u32>()].boxed()
}

fn arb_time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_000_i64).prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn arb_worker_id() -> impl Strategy<Value = WorkerId> {
    "[a-z0-9-]{1,8}".prop_map(|name| WorkerId::new(name).unwrap())
}

fn arb_reference() -> BoxedStrategy<Reference> {
    ("[a-z/:]{1,12}", any::<u32>())
        .prop_map(|(uri, bytes)| {
            let map = Json::object([("ref", Json::from(uri)), ("bytes", Json::from(bytes))]);
            Reference::new(map).unwrap()
        })
        .boxed()
}

fn arb_data() -> BoxedStrategy<EventData> {
    prop_oneof![
        arb_json().prop_map(EventData::Inline),
        arb_reference().prop_map(EventData::External)
    ]
    .boxed()
}

fn arb_digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

fn arb_error() -> BoxedStrategy<TaskError> {
    let kind = prop::sample::select(TaskErrorKind::ALL);
    let first = (
        kind,
        any::<bool>(),
        option::of(arb_non_null_json()),
        option::of(any::<u16>()),
        arb_text(),
    );
    let second = (
        option::of(arb_non_null_json()),
        option::of(arb_text()),
        option::of(any::<u32>()),
        option::of(0..u64::from(u32::MAX)),
    );
    (first, second)
        .prop_map(|(first, second)| {
            let (kind, retryable, code, status, message) = first;
            let (details, task, attempt, index) = second;
            TaskError { kind, retryable, code, status, message, details, task, attempt, index }
        })
        .boxed()
}

fn arb_loop_ref() -> BoxedStrategy<LoopRef> {
    (arb_event_id(), option::of(arb_count()))
        .prop_map(|(loop_id, size)| LoopRef { loop_id, size })
        .boxed()
}

fn arb_command_ref() -> BoxedStrategy<CommandRef> {
    (
        arb_event_id(),
        arb_step_name(),
        arb_count(),
        (option::of(arb_count()), option::of(arb_count())),
        option::of(arb_loop_ref()),
    )
        .prop_map(|(command, step, run, (index, segment), looping)| CommandRef {
            command: CommandId::from(command),
            step,
            run,
            index,
            segment,
            looping,
        })
        .boxed()
}

fn arb_command_context() -> impl Strategy<Value = CommandContext> {
    let path = || "[a-z.]{1,6}".prop_map(Arc::<str>::from);
    let labels = prop_oneof![
        prop::collection::vec(path(), 0..3).prop_map(|names| StepDataLabels::Names(names.into())),
        arb_map(arb_json()).prop_map(|map| StepDataLabels::Data(map.into())),
        Just(StepDataLabels::Loop),
    ];
    (
        arb_map(arb_json()),
        prop::collection::btree_map(path(), labels, 0..3),
        prop::collection::btree_set(path(), 0..3),
        arb_map(arb_json()),
        any::<bool>(),
    )
        .prop_map(|(values, steps, references, variables, is_complete)| CommandContext {
            values,
            steps,
            references,
            variables,
            is_complete,
            continuation: None,
        })
}

fn arb_command_issued() -> impl Strategy<Value = CommandIssued> {
    let context = prop_oneof![
        arb_command_context().prop_map(IssuedContext::Inline),
        arb_reference().prop_map(IssuedContext::External),
    ];
    let kinds: Vec<ToolKind> =
        ToolKind::WORDS.iter().filter_map(|name| ToolKind::parse(name)).collect();
    let request =
        (arb_count(), arb_count(), arb_count()).prop_map(|(max_rows, lease, heartbeat)| {
            FrameRequest {
                max_rows,
                lease: Millis::from_ms(u64::from(lease)),
                heartbeat: Millis::from_ms(u64::from(heartbeat)),
            }
        });
    let position = (
        arb_step_name(),
        arb_count(),
        (option::of(arb_count()), option::of(arb_count())),
        option::of(arb_loop_ref()),
        option::of(request),
    );
    let work = prop_oneof![
        (prop::sample::select(kinds), context).prop_map(|(tool, context)| (tool, None, context)),
        suspension::arb_suspension().prop_map(|(tool, suspension)| {
            let nothing = IssuedContext::Inline(CommandContext::default());
            (tool, Some(suspension), nothing)
        }),
    ];
    let rest = (work, arb_count(), arb_count(), option::of(any::<i16>()), option::of(arb_time()));
    (position, rest).prop_map(|(position, rest)| {
        let (step, run, (index, segment), looping, frame) = position;
        let ((tool, suspension, context), max_attempts, deadline, priority, not_before) = rest;
        let deadline = Millis::from_ms(u64::from(deadline));
        CommandIssued {
            step,
            run,
            index,
            segment,
            looping,
            frame,
            tool,
            max_attempts,
            deadline,
            priority,
            not_before,
            trace: None,
            suspension,
            context,
        }
    })
}

fn arb_call_outcome() -> BoxedStrategy<CallOutcome> {
    let captured_output = (option::of(arb_text()), option::of(arb_text()));
    let task = (arb_text(), any::<bool>(), arb_count(), option::of(arb_count()), captured_output)
        .prop_map(|(label, is_ok, attempts, duration, (stdout, stderr))| TaskReport {
            label,
            status: if is_ok { TaskStatus::Ok } else { TaskStatus::Error },
            attempts,
            duration_ms: duration.map(u64::from),
            stdout,
            stderr,
        });
    (
        arb_data(),
        arb_map(arb_json()),
        arb_count(),
        prop::collection::vec(task, 0..3),
        option::of(arb_frame_report()),
    )
        .prop_map(|(data, set, attempt, tasks, frame)| CallOutcome {
            data,
            set,
            attempt,
            tasks,
            frame,
        })
        .boxed()
}

fn arb_frame_report() -> impl Strategy<Value = FrameReport> {
    let failed = (arb_count(), arb_error()).prop_map(|(row, error)| RowError { row, error });
    (arb_count(), arb_count(), arb_count(), any::<u64>(), prop::collection::vec(failed, 0..3))
        .prop_map(|(rows, done, failed, bytes, errors)| FrameReport {
            rows,
            done,
            failed,
            bytes,
            errors,
        })
}

fn arb_cached_result_used() -> impl Strategy<Value = CachedResultUsed> {
    (
        arb_step_name(),
        arb_count(),
        arb_event_id(),
        1..1_000_000_i64,
        (arb_data(), option::of(arb_non_null_json())),
    )
        .prop_map(|(step, run, execution_id, seq, (data, labels))| CachedResultUsed {
            step,
            run,
            origin: ResultOrigin {
                execution_id: ExecutionId::new(execution_id.get()).unwrap(),
                seq: Seq::new(seq).unwrap(),
            },
            result: CachedResult { data, labels },
        })
}

fn arb_slot() -> impl Strategy<Value = Slot> {
    (arb_text(), arb_count()).prop_map(|(key, limit)| Slot { key, limit })
}

fn arb_command_claimed() -> impl Strategy<Value = CommandClaimed> {
    (arb_command_ref(), arb_count(), arb_worker_id(), option::of(arb_time())).prop_map(
        |(at, attempt, worker, lease_until)| CommandClaimed { at, attempt, worker, lease_until },
    )
}

fn arb_command_event() -> impl Strategy<Value = EventKind> {
    let reasons = [
        ExpiryReason::Lease,
        ExpiryReason::Deadline,
        ExpiryReason::Deregistered,
        ExpiryReason::Retry,
    ];
    prop_oneof![
        arb_command_issued().prop_map(|issued| EventKind::CommandIssued(Box::new(issued))),
        arb_command_claimed().prop_map(|claimed| EventKind::CommandClaimed(Box::new(claimed))),
        (arb_command_ref(), arb_count())
            .prop_map(|(at, attempt)| EventKind::CommandStarted { at, attempt }),
        (arb_command_ref(), arb_json())
            .prop_map(|(at, progress)| EventKind::CommandHeartbeat { at, progress }),
        arb_call_done().prop_map(|done| EventKind::CallDone(Box::new(done))),
        (arb_command_ref(), arb_count(), arb_error(), arb_call_outcome(), option::of(arb_count()))
            .prop_map(|(at, call_index, error, outcome, retry_in)| {
                let retry_in = retry_in.map(|ms| Millis::from_ms(u64::from(ms)));
                let retried = retry_in.map(|retry_in| ScheduledRetry { retry_in });
                EventKind::CallError(Box::new(CallError {
                    at,
                    call_index,
                    error,
                    outcome,
                    retried,
                }))
            }),
        arb_cached_result_used().prop_map(|used| EventKind::CachedResultUsed(Box::new(used))),
        arb_command_ref().prop_map(EventKind::CommandCompleted),
        (arb_command_ref(), arb_error()).prop_map(|(at, reason)| {
            EventKind::CommandFailed(Box::new(CommandClosed { at, reason }))
        }),
        (arb_command_ref(), arb_text()).prop_map(|(at, reason)| {
            EventKind::CommandCancelled(Box::new(CommandClosed { at, reason }))
        }),
        (
            arb_command_ref(),
            arb_count(),
            prop::sample::select(reasons.to_vec()),
            option::of(arb_time())
        )
            .prop_map(|(at, attempt, reason, not_before)| {
                let expired = CommandExpired { at, attempt, reason, not_before };
                EventKind::CommandExpired(Box::new(expired))
            }),
        arb_result_ignored().prop_map(|ignored| EventKind::ResultIgnored(Box::new(ignored))),
    ]
}

fn arb_call_done() -> impl Strategy<Value = CallDone> {
    (
        arb_command_ref(),
        arb_count(),
        arb_call_outcome(),
        option::of(arb_non_null_json()),
        option::of(suspension::arb_continuation()),
    )
        .prop_map(|(at, call_index, outcome, labels, continuation)| CallDone {
            at,
            call_index,
            outcome,
            labels,
            continuation,
        })
}

fn arb_result_ignored() -> impl Strategy<Value = ResultIgnored> {
    let codes = prop::sample::select(ErrorCode::ALL);
    (
        arb_event_id(),
        option::of(arb_step_name()),
        arb_count(),
        arb_worker_id(),
        (arb_digest(), arb_count(), codes),
    )
        .prop_map(|(command, step, attempt, worker, (sha256, bytes, code))| ResultIgnored {
            command: CommandId::from(command),
            step,
            attempt,
            worker,
            sha256,
            bytes: u64::from(bytes),
            code,
        })
}

fn arb_step_entered() -> impl Strategy<Value = StepEntered> {
    let looping = (arb_count(), arb_text(), option::of(arb_data()), option::of(arb_count()))
        .prop_map(|(iterations, iterator, items, max_in_flight)| LoopEntered {
            iterations,
            iterator,
            items,
            max_in_flight,
        });
    let arrivals = prop::collection::vec(arb_step_name(), 0..3);
    // A step loops over a collection or a cursor, never both.
    let work = prop_oneof![
        Just((None, None)),
        looping.prop_map(|looping| (Some(looping), None)),
        arb_cursor_entered().prop_map(|cursor| (None, Some(Box::new(cursor)))),
    ];
    let scopes = prop::sample::select(vec![CacheScope::Playbook, CacheScope::Tenant]);
    let cache =
        (scopes, arb_digest()).prop_map(|(scope, key_sha256)| CacheKey { scope, key_sha256 });
    let settings = (option::of(any::<i16>()), option::of(arb_slot()), option::of(cache));
    (arb_step_name(), arb_count(), arrivals, work, settings).prop_map(
        |(step, run, arrivals, work, settings)| {
            let (looping, cursor) = work;
            let (priority, slot, cache) = settings;
            StepEntered { step, run, arrivals, looping, cursor, priority, slot, cache }
        },
    )
}

fn arb_cursor_entered() -> impl Strategy<Value = CursorEntered> {
    let times = (arb_count(), arb_count(), arb_count());
    (arb_text(), arb_count(), arb_count(), times, (arb_count(), arb_count())).prop_map(
        |(iterator, chains, max_rows, times, (bytes, max_attempts))| {
            let ms = |ms| Millis::from_ms(u64::from(ms));
            CursorEntered {
                iterator,
                terms: CursorSettings {
                    chains,
                    max_rows,
                    max_time: ms(times.0),
                    max_bytes: ByteSize::from_bytes(u64::from(bytes)),
                    lease: ms(times.1),
                    heartbeat: ms(times.2),
                    max_attempts,
                },
            }
        },
    )
}

fn arb_step_event() -> impl Strategy<Value = EventKind> {
    let end = prop_oneof![
        Just(StepEnd::Completed),
        Just(StepEnd::Cancelled),
        (arb_error(), any::<bool>()).prop_map(|(error, caught)| StepEnd::Failed { error, caught }),
    ];
    let next = || prop::collection::vec(arb_step_name(), 0..3);
    let reason = prop_oneof![
        Just(SkipReason::NotRouted),
        (arb_count(), arb_json(), next())
            .prop_map(|(run, value, next)| { SkipReason::Guard { run, value, next } }),
        (arb_count(), next()).prop_map(|(run, next)| SkipReason::Admission { run, next }),
    ];
    let sources = prop::sample::select(vec![CtxSource::Task, CtxSource::Step, CtxSource::Arc]);
    prop_oneof![
        arb_step_entered().prop_map(|entered| EventKind::StepEntered(Box::new(entered))),
        (arb_step_name(), arb_count(), end, next(), option::of(arb_data())).prop_map(
            |(step, run, end, next, data)| {
                EventKind::StepExited(Box::new(StepExited { step, run, end, next, data }))
            }
        ),
        (arb_step_name(), reason)
            .prop_map(|(step, reason)| { EventKind::StepSkipped(StepSkipped { step, reason }) }),
        arb_loop_done().prop_map(|done| EventKind::LoopDone(Box::new(done))),
        (arb_step_name(), arb_count(), option::of(arb_count()), sources, arb_map(arb_json()))
            .prop_map(|(step, run, index, source, values)| {
                EventKind::CtxUpdated(Box::new(CtxUpdated { step, run, index, source, values }))
            }),
    ]
}

fn arb_loop_done() -> impl Strategy<Value = LoopDone> {
    let stats = (arb_count(), arb_count(), arb_count(), option::of(arb_count()))
        .prop_map(|(total, success, failed, frames)| LoopStats { total, success, failed, frames });
    let failed =
        (arb_count(), arb_error()).prop_map(|(index, error)| IterationError { index, error });
    (arb_step_name(), arb_count(), arb_event_id(), stats, prop::collection::vec(failed, 0..2))
        .prop_map(|(step, run, loop_id, stats, errors)| LoopDone {
            step,
            run,
            loop_id,
            stats,
            errors,
        })
}

fn arb_playbook_started() -> impl Strategy<Value = PlaybookStarted> {
    let ids = (arb_event_id(), arb_event_id(), option::of(arb_event_id()), option::of(arb_time()));
    let overlaps = vec![
        ConcurrencyOverlap::Queue,
        ConcurrencyOverlap::Skip,
        ConcurrencyOverlap::CancelPrevious,
    ];
    let definition = ("[a-z]{1,5}/[a-z]{1,5}", arb_count(), arb_digest());
    let placement = (
        option::of("[a-z]{1,5}"),
        option::of(any::<i16>()),
        option::of(arb_text()),
        option::of(
            (arb_slot(), prop::sample::select(overlaps))
                .prop_map(|(slot, overlap)| ExecutionSlot { slot, overlap }),
        ),
    );
    let more = (
        (option::of(arb_text()), option::of(arb_text())),
        option::of(arb_non_null_json()),
        option::of(arb_non_null_json()),
        option::of(arb_non_null_json()),
        option::of(arb_non_null_json()),
    );
    (ids, definition, arb_data(), placement, more).prop_map(
        |(ids, definition, workload, placement, more)| PlaybookStarted {
            execution_id: ExecutionId::new(ids.0.get()).unwrap(),
            catalog_id: CatalogId::new(ids.1.get()).unwrap(),
            path: PlaybookPath::new(definition.0).unwrap(),
            version: definition.1,
            definition_sha256: definition.2,
            workload,
            parent_execution_id: ids.2.map(|id| ExecutionId::new(id.get()).unwrap()),
            depth: definition.1,
            execution_pool: placement.0.map(|pool| PoolName::new(pool).unwrap()),
            priority: placement.1,
            concurrency: placement.3,
            start_at: ids.3,
            server_url: placement.2,
            emitter: more.0.0,
            actor: more.0.1,
            trace: more.1,
            forked_from: more.2,
            rerun_of: more.3,
            dedup: more.4,
        },
    )
}

fn arb_playbook_event() -> impl Strategy<Value = EventKind> {
    let control = || {
        (option::of(arb_text()), option::of(arb_text()))
            .prop_map(|(actor, reason)| ControlInfo { actor, reason })
    };
    let timer = prop_oneof![
        Just(ExecutionTimer::Start),
        Just(ExecutionTimer::Execution),
        (arb_step_name(), arb_count()).prop_map(|(step, run)| ExecutionTimer::Step { step, run }),
    ];
    prop_oneof![
        arb_playbook_started().prop_map(|started| EventKind::PlaybookStarted(Box::new(started))),
        control().prop_map(EventKind::PlaybookPaused),
        control().prop_map(EventKind::PlaybookResumed),
        control().prop_map(EventKind::PlaybookCancelled),
        control().prop_map(EventKind::PlaybookCancelRequested),
        option::of(arb_data()).prop_map(|result| EventKind::PlaybookCompleted { result }),
        (arb_error(), prop::collection::vec(arb_step_name(), 0..3)).prop_map(
            |(error, failed_steps)| {
                EventKind::PlaybookFailed(Box::new(PlaybookFailed { error, failed_steps }))
            }
        ),
        (timer, arb_time()).prop_map(|(timer, fire_at)| EventKind::TimerFired { timer, fire_at }),
        Just(EventKind::Other(EventType::ExecutionForked.into())),
        Just(EventKind::Other(EventName::parse("order.created").unwrap())),
    ]
}

/// Any event, including those that no execution emits.
pub(crate) fn arb_event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![
        arb_command_event(),
        arb_step_event(),
        arb_playbook_event(),
        suspension::arb_suspension_event()
    ];
    (1..1_000_000_i64, arb_event_id(), arb_time(), option::of(arb_event_id()), kind).prop_map(
        |(seq, event_id, time, cause, kind)| Event {
            seq: Seq::new(seq).unwrap(),
            event_id,
            time,
            cause,
            kind,
        },
    )
}

fn execution_header() -> ExecutionHeader {
    ExecutionHeader {
        execution_id: ExecutionId::new(5).unwrap(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        path: PlaybookPath::new("a/b").unwrap(),
    }
}

fn to_record(event: &Event) -> EventRecord {
    EventRecord {
        event: encode_event(event, &execution_header()),
        seq: event.seq,
        ingest_time: event.time,
        envelope_checksum: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Round trip through the record and through its JSON, as in streams and exports.
    #[test]
    fn event_round_trips_through_record(event in arb_event()) {
        let record = to_record(&event);
        prop_assert_eq!(&decode_record(&record).unwrap(), &event);
        let text = serde_json::to_vec(&record).unwrap();
        let back: EventRecord = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(decode_record(&back).unwrap(), event);
    }

    /// Any record decodes to an event or to an error that carries the seq of the event.
    #[test]
    fn decoding_never_panics(
        event in arb_event(), context in option::of(arb_json()), result in option::of(arb_json()),
        meta in option::of(arb_json()),
    ) {
        let mut record = to_record(&event);
        record.event.context = context;
        record.event.result = result.map(|inner| Json::object([("context", inner)]));
        record.event.meta = meta;
        if let Err(error) = decode_record(&record) {
            prop_assert_eq!(error.seq, event.seq);
        }
    }
}

#[test]
fn decode_error_names_event_and_field() {
    let event = Event {
        seq: Seq::FIRST,
        event_id: EventId::new(9).unwrap(),
        time: Timestamp::UNIX_EPOCH,
        cause: None,
        kind: EventKind::Other(EventType::StepEnter.into()),
    };
    let error = decode_record(&to_record(&event)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event 1 (step.enter) has no readable `node_name`: expected the name of a step"
    );
}
