//! What is written reads back as the same event.

mod park;

use std::sync::Arc;

use noetl_playbook::carried::{Carried, Labels};
use noetl_playbook::model::{CacheScope, ConcurrencyOverlap, ToolKind};
use noetl_playbook::shift::{FrameReport, RowError, TaskReport, TaskStatus};
use noetl_types::record::EventRecord;
use noetl_types::{
    ByteSize, CatalogId, CommandId, Digest, ErrorCode, EventId, EventName, EventType, ExecutionId,
    Json, JsonMap, Millis, OrganizationId, PlaybookPath, PoolName, Seq, StepName, TaskError,
    TaskErrorKind, TenantId, Text, Timestamp, WorkerId,
};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::cache::{CacheKey, CachedResult, Origin};
use crate::payload::Reference;
use crate::slot::{RunSlot, Slot};

fn json() -> BoxedStrategy<Json> {
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
            map_of(inner).prop_map(Json::from),
        ]
    })
    .boxed()
}

fn map_of(value: impl Strategy<Value = Json>) -> impl Strategy<Value = JsonMap> {
    let key = "[a-z.]{1,4}".prop_map(Arc::<str>::from);
    prop::collection::btree_map(key, value, 0..4)
}

/// A value that is not null: an absent field and a null one are the same.
fn some_json() -> BoxedStrategy<Json> {
    json()
        .prop_filter("null is absent", |value| !value.is_null())
        .boxed()
}

fn text() -> BoxedStrategy<Text> {
    "[a-zA-Zé '\"]{0,12}".prop_map(Text::from).boxed()
}

/// Often one of few, so that events of a sequence are about the same step.
fn step() -> BoxedStrategy<StepName> {
    let name = prop_oneof![3 => "[a-d]", 1 => "[a-z_][a-z0-9_-]{0,6}"];
    name.prop_map(|name| StepName::new(name).unwrap()).boxed()
}

/// Often one of few, so that events of a sequence are about the same command.
fn event_id() -> BoxedStrategy<EventId> {
    let id = prop_oneof![3 => 1..6_i64, 1 => 1..i64::MAX];
    id.prop_map(|id| EventId::new(id).unwrap()).boxed()
}

/// A run, an index, a count.
fn count() -> BoxedStrategy<u32> {
    prop_oneof![3 => 0..3_u32, 1 => any::<u32>()].boxed()
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_000_i64).prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn worker() -> impl Strategy<Value = WorkerId> {
    "[a-z0-9-]{1,8}".prop_map(|name| WorkerId::new(name).unwrap())
}

fn reference() -> BoxedStrategy<Reference> {
    ("[a-z/:]{1,12}", any::<u32>())
        .prop_map(|(uri, bytes)| {
            let map = Json::object([("ref", Json::from(uri)), ("bytes", Json::from(bytes))]);
            Reference::new(map).unwrap()
        })
        .boxed()
}

fn data() -> BoxedStrategy<Data> {
    prop_oneof![
        json().prop_map(Data::Inline),
        reference().prop_map(Data::External)
    ]
    .boxed()
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

fn error() -> BoxedStrategy<TaskError> {
    let kind = prop::sample::select(TaskErrorKind::ALL);
    let first = (
        kind,
        any::<bool>(),
        option::of(some_json()),
        option::of(any::<u16>()),
        text(),
    );
    let second = (
        option::of(some_json()),
        option::of(text()),
        option::of(any::<u32>()),
        option::of(0..u64::from(u32::MAX)),
    );
    (first, second)
        .prop_map(|(first, second)| {
            let (kind, retryable, code, status, message) = first;
            let (details, task, attempt, index) = second;
            TaskError {
                kind,
                retryable,
                code,
                status,
                message,
                details,
                task,
                attempt,
                index,
            }
        })
        .boxed()
}

fn loop_ref() -> BoxedStrategy<LoopRef> {
    (event_id(), option::of(count()))
        .prop_map(|(loop_id, size)| LoopRef { loop_id, size })
        .boxed()
}

fn at() -> BoxedStrategy<CommandAt> {
    (
        event_id(),
        step(),
        count(),
        (option::of(count()), option::of(count())),
        option::of(loop_ref()),
    )
        .prop_map(
            |(command, step, run, (index, segment), looping)| CommandAt {
                command: CommandId::from(command),
                step,
                run,
                index,
                segment,
                looping,
            },
        )
        .boxed()
}

fn carried() -> impl Strategy<Value = Carried> {
    let path = || "[a-z.]{1,6}".prop_map(Arc::<str>::from);
    let labels = prop_oneof![
        prop::collection::vec(path(), 0..3).prop_map(|names| Labels::Names(names.into())),
        map_of(json()).prop_map(|map| Labels::Data(map.into())),
        Just(Labels::Loop),
    ];
    (
        map_of(json()),
        prop::collection::btree_map(path(), labels, 0..3),
        prop::collection::btree_set(path(), 0..3),
        map_of(json()),
        any::<bool>(),
    )
        .prop_map(
            |(values, steps, references, variables, everything)| Carried {
                values,
                steps,
                references,
                variables,
                everything,
                relay: None,
            },
        )
}

fn issued() -> impl Strategy<Value = CommandIssued> {
    let context = prop_oneof![
        carried().prop_map(IssuedContext::Inline),
        reference().prop_map(IssuedContext::External),
    ];
    let kinds: Vec<ToolKind> = ToolKind::WORDS
        .iter()
        .filter_map(|word| ToolKind::parse(word))
        .collect();
    let ask = (count(), count(), count()).prop_map(|(max_rows, lease, heartbeat)| FrameAsk {
        max_rows,
        lease: Millis::from_ms(u64::from(lease)),
        heartbeat: Millis::from_ms(u64::from(heartbeat)),
    });
    let place = (
        step(),
        count(),
        (option::of(count()), option::of(count())),
        option::of(loop_ref()),
        option::of(ask),
    );
    let work = prop_oneof![
        (prop::sample::select(kinds), context).prop_map(|(tool, context)| (tool, None, context)),
        park::parked().prop_map(|(tool, park)| {
            let nothing = IssuedContext::Inline(Carried::default());
            (tool, Some(park), nothing)
        }),
    ];
    let rest = (
        work,
        count(),
        count(),
        option::of(any::<i16>()),
        option::of(time()),
    );
    (place, rest).prop_map(|(place, rest)| {
        let (step, run, (index, segment), looping, frame) = place;
        let ((tool, parked, context), max_attempts, deadline, priority, not_before) = rest;
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
            parked,
            context,
        }
    })
}

fn outcome() -> BoxedStrategy<CallOutcome> {
    let task = (text(), any::<bool>(), count(), option::of(count())).prop_map(
        |(label, is_ok, attempts, duration)| TaskReport {
            label,
            status: if is_ok {
                TaskStatus::Ok
            } else {
                TaskStatus::Error
            },
            attempts,
            duration: duration.map(|ms| Millis::from_ms(u64::from(ms))),
        },
    );
    (
        data(),
        map_of(json()),
        count(),
        prop::collection::vec(task, 0..3),
        option::of(frame()),
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

fn frame() -> impl Strategy<Value = FrameReport> {
    let failed = (count(), error()).prop_map(|(row, error)| RowError { row, error });
    (
        count(),
        count(),
        count(),
        any::<u64>(),
        prop::collection::vec(failed, 0..3),
    )
        .prop_map(|(rows, done, failed, bytes, errors)| FrameReport {
            rows,
            done,
            failed,
            bytes,
            errors,
        })
}

fn taken_over() -> impl Strategy<Value = TakenOver> {
    (
        step(),
        count(),
        event_id(),
        1..1_000_000_i64,
        (data(), option::of(some_json())),
    )
        .prop_map(|(step, run, run_id, seq, (data, labels))| TakenOver {
            step,
            run,
            origin: Origin {
                execution_id: ExecutionId::new(run_id.get()).unwrap(),
                seq: Seq::new(seq).unwrap(),
            },
            result: CachedResult { data, labels },
        })
}

fn slot() -> impl Strategy<Value = Slot> {
    (text(), count()).prop_map(|(key, limit)| Slot { key, limit })
}

fn claimed() -> impl Strategy<Value = CommandClaimed> {
    (at(), count(), worker(), option::of(time())).prop_map(|(at, attempt, worker, lease_until)| {
        CommandClaimed {
            at,
            attempt,
            worker,
            lease_until,
        }
    })
}

fn command_kind() -> impl Strategy<Value = EventKind> {
    let reasons = [
        ExpiryReason::Lease,
        ExpiryReason::Deadline,
        ExpiryReason::Deregistered,
        ExpiryReason::Retry,
    ];
    prop_oneof![
        issued().prop_map(|issued| EventKind::CommandIssued(Box::new(issued))),
        claimed().prop_map(|claimed| EventKind::CommandClaimed(Box::new(claimed))),
        (at(), count()).prop_map(|(at, attempt)| EventKind::CommandStarted { at, attempt }),
        (at(), json()).prop_map(|(at, progress)| EventKind::CommandHeartbeat { at, progress }),
        (
            at(),
            count(),
            outcome(),
            option::of(some_json()),
            option::of(park::onward())
        )
            .prop_map(|(at, call_index, outcome, labels, onward)| {
                EventKind::CallDone(Box::new(CallDone {
                    at,
                    call_index,
                    outcome,
                    labels,
                    onward,
                }))
            }),
        (at(), count(), error(), outcome(), option::of(count())).prop_map(
            |(at, call_index, error, outcome, retry_in)| {
                let retry_in = retry_in.map(|ms| Millis::from_ms(u64::from(ms)));
                let retried = retry_in.map(|retry_in| Retried { retry_in });
                EventKind::CallError(Box::new(CallError {
                    at,
                    call_index,
                    error,
                    outcome,
                    retried,
                }))
            }
        ),
        taken_over().prop_map(|taken| EventKind::TakenOver(Box::new(taken))),
        at().prop_map(EventKind::CommandCompleted),
        (at(), error()).prop_map(|(at, why)| {
            EventKind::CommandFailed(Box::new(CommandClosed { at, why }))
        }),
        (at(), text()).prop_map(|(at, why)| {
            EventKind::CommandCancelled(Box::new(CommandClosed { at, why }))
        }),
        (
            at(),
            count(),
            prop::sample::select(reasons.to_vec()),
            option::of(time())
        )
            .prop_map(|(at, attempt, reason, not_before)| {
                let expired = CommandExpired {
                    at,
                    attempt,
                    reason,
                    not_before,
                };
                EventKind::CommandExpired(Box::new(expired))
            }),
        ignored().prop_map(|ignored| EventKind::ResultIgnored(Box::new(ignored))),
    ]
}

fn ignored() -> impl Strategy<Value = ResultIgnored> {
    let codes = prop::sample::select(ErrorCode::ALL);
    (
        event_id(),
        option::of(step()),
        count(),
        worker(),
        (digest(), count(), codes),
    )
        .prop_map(
            |(command, step, attempt, worker, (sha256, bytes, code))| ResultIgnored {
                command: CommandId::from(command),
                step,
                attempt,
                worker,
                sha256,
                bytes: u64::from(bytes),
                code,
            },
        )
}

fn entered() -> impl Strategy<Value = StepEntered> {
    let looping = (count(), text(), option::of(data()), option::of(count())).prop_map(
        |(iterations, iterator, items, max_in_flight)| LoopEntered {
            iterations,
            iterator,
            items,
            max_in_flight,
        },
    );
    let arrivals = prop::collection::vec(step(), 0..3);
    // A step loops over one thing.
    let shape = prop_oneof![
        Just((None, None)),
        looping.prop_map(|looping| (Some(looping), None)),
        cursor().prop_map(|cursor| (None, Some(Box::new(cursor)))),
    ];
    let scopes = prop::sample::select(vec![CacheScope::Playbook, CacheScope::Tenant]);
    let cache = (scopes, digest()).prop_map(|(scope, key_sha256)| CacheKey { scope, key_sha256 });
    let terms = (
        option::of(any::<i16>()),
        option::of(slot()),
        option::of(cache),
    );
    (step(), count(), arrivals, shape, terms).prop_map(|(step, run, arrivals, shape, terms)| {
        let (looping, cursor) = shape;
        let (priority, slot, cache) = terms;
        StepEntered {
            step,
            run,
            arrivals,
            looping,
            cursor,
            priority,
            slot,
            cache,
        }
    })
}

fn cursor() -> impl Strategy<Value = CursorEntered> {
    let times = (count(), count(), count());
    (text(), count(), count(), times, (count(), count())).prop_map(
        |(iterator, chains, max_rows, times, (bytes, max_attempts))| {
            let ms = |ms| Millis::from_ms(u64::from(ms));
            CursorEntered {
                iterator,
                terms: CursorTerms {
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

fn step_kind() -> impl Strategy<Value = EventKind> {
    let end = prop_oneof![
        Just(StepEnd::Completed),
        Just(StepEnd::Cancelled),
        (error(), any::<bool>()).prop_map(|(error, caught)| StepEnd::Failed { error, caught }),
    ];
    let next = || prop::collection::vec(step(), 0..3);
    let reason = prop_oneof![
        Just(SkipReason::NotRouted),
        (count(), json(), next())
            .prop_map(|(run, value, next)| { SkipReason::Guard { run, value, next } }),
        (count(), next()).prop_map(|(run, next)| SkipReason::Admission { run, next }),
    ];
    let stats = (count(), count(), count(), option::of(count())).prop_map(
        |(total, success, failed, frames)| LoopStats {
            total,
            success,
            failed,
            frames,
        },
    );
    let failed = (count(), error()).prop_map(|(index, error)| IterationError { index, error });
    let sources = prop::sample::select(vec![CtxSource::Task, CtxSource::Step, CtxSource::Arc]);
    prop_oneof![
        entered().prop_map(|entered| EventKind::StepEntered(Box::new(entered))),
        (step(), count(), end, next(), option::of(data())).prop_map(
            |(step, run, end, next, data)| {
                EventKind::StepExited(Box::new(StepExited {
                    step,
                    run,
                    end,
                    next,
                    data,
                }))
            }
        ),
        (step(), reason)
            .prop_map(|(step, reason)| { EventKind::StepSkipped(StepSkipped { step, reason }) }),
        (
            step(),
            count(),
            event_id(),
            stats,
            prop::collection::vec(failed, 0..2)
        )
            .prop_map(|(step, run, loop_id, stats, errors)| {
                EventKind::LoopDone(Box::new(LoopDone {
                    step,
                    run,
                    loop_id,
                    stats,
                    errors,
                }))
            }),
        (
            step(),
            count(),
            option::of(count()),
            sources,
            map_of(json())
        )
            .prop_map(|(step, run, index, source, values)| {
                EventKind::CtxUpdated(Box::new(CtxUpdated {
                    step,
                    run,
                    index,
                    source,
                    values,
                }))
            }),
    ]
}

fn started() -> impl Strategy<Value = Started> {
    let ids = (
        event_id(),
        event_id(),
        option::of(event_id()),
        option::of(time()),
    );
    let overlaps = vec![
        ConcurrencyOverlap::Queue,
        ConcurrencyOverlap::Skip,
        ConcurrencyOverlap::CancelPrevious,
    ];
    let definition = ("[a-z]{1,5}/[a-z]{1,5}", count(), digest());
    let place = (
        option::of("[a-z]{1,5}"),
        option::of(any::<i16>()),
        option::of(text()),
        option::of(
            (slot(), prop::sample::select(overlaps))
                .prop_map(|(slot, overlap)| RunSlot { slot, overlap }),
        ),
    );
    let more = (
        (option::of(text()), option::of(text())),
        option::of(some_json()),
        option::of(some_json()),
        option::of(some_json()),
        option::of(some_json()),
    );
    (ids, definition, data(), place, more).prop_map(|(ids, definition, workload, place, more)| {
        Started {
            execution_id: ExecutionId::new(ids.0.get()).unwrap(),
            catalog_id: CatalogId::new(ids.1.get()).unwrap(),
            path: PlaybookPath::new(definition.0).unwrap(),
            version: definition.1,
            definition_sha256: definition.2,
            workload,
            parent_execution_id: ids.2.map(|id| ExecutionId::new(id.get()).unwrap()),
            depth: definition.1,
            execution_pool: place.0.map(|pool| PoolName::new(pool).unwrap()),
            priority: place.1,
            concurrency: place.3,
            start_at: ids.3,
            server_url: place.2,
            emitter: more.0.0,
            actor: more.0.1,
            trace: more.1,
            forked_from: more.2,
            rerun_of: more.3,
            dedup: more.4,
        }
    })
}

fn playbook_kind() -> impl Strategy<Value = EventKind> {
    let steering = || {
        (option::of(text()), option::of(text()))
            .prop_map(|(actor, reason)| Steering { actor, reason })
    };
    let timer = prop_oneof![
        Just(Timeout::Start),
        Just(Timeout::Execution),
        (step(), count()).prop_map(|(step, run)| Timeout::Step { step, run }),
    ];
    prop_oneof![
        started().prop_map(|started| EventKind::PlaybookStarted(Box::new(started))),
        steering().prop_map(EventKind::PlaybookPaused),
        steering().prop_map(EventKind::PlaybookResumed),
        steering().prop_map(EventKind::PlaybookCancelled),
        option::of(data()).prop_map(|result| EventKind::PlaybookCompleted { result }),
        (error(), prop::collection::vec(step(), 0..3)).prop_map(|(error, failed_steps)| {
            EventKind::PlaybookFailed(Box::new(Failed {
                error,
                failed_steps,
            }))
        }),
        (timer, time()).prop_map(|(timer, fire_at)| EventKind::TimerFired { timer, fire_at }),
        Just(EventKind::Other(EventType::ExecutionForked.into())),
        Just(EventKind::Other(EventName::read("order.created").unwrap())),
    ]
}

/// Any event at all, whether it can happen or not.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![command_kind(), step_kind(), playbook_kind(), park::kind()];
    (
        1..1_000_000_i64,
        event_id(),
        time(),
        option::of(event_id()),
        kind,
    )
        .prop_map(|(seq, event_id, time, cause, kind)| Event {
            seq: Seq::new(seq).unwrap(),
            event_id,
            time,
            cause,
            kind,
        })
}

fn header() -> ExecutionHeader {
    ExecutionHeader {
        execution_id: ExecutionId::new(5).unwrap(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        path: PlaybookPath::new("a/b").unwrap(),
    }
}

fn stored(event: &Event) -> EventRecord {
    EventRecord {
        event: encode(event, &header()),
        seq: event.seq,
        ingest_time: event.time,
        envelope_checksum: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Through the text that a stream or an export carries, and back.
    #[test]
    fn an_event_reads_back_from_its_record(event in event()) {
        let record = stored(&event);
        prop_assert_eq!(&decode(&record).unwrap(), &event);
        let text = serde_json::to_vec(&record).unwrap();
        let back: EventRecord = serde_json::from_slice(&text).unwrap();
        prop_assert_eq!(decode(&back).unwrap(), event);
    }

    /// Whatever stands in a record, reading it ends in an event or in an error with a place.
    #[test]
    fn reading_never_panics(
        event in event(), context in option::of(json()), result in option::of(json()),
        meta in option::of(json()),
    ) {
        let mut record = stored(&event);
        record.event.context = context;
        record.event.result = result.map(|inner| Json::object([("context", inner)]));
        record.event.meta = meta;
        if let Err(error) = decode(&record) {
            prop_assert_eq!(error.seq, event.seq);
        }
    }
}

#[test]
fn a_misfit_is_named_with_its_place() {
    let event = Event {
        seq: Seq::FIRST,
        event_id: EventId::new(9).unwrap(),
        time: Timestamp::UNIX_EPOCH,
        cause: None,
        kind: EventKind::Other(EventType::StepEnter.into()),
    };
    let error = decode(&stored(&event)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event 1 (step.enter) has no readable `node_name`: expected the name of a step"
    );
}
