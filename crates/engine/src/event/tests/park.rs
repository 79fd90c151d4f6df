//! Events of tasks that wait without a worker.

use noetl_playbook::shift::Onward;
use noetl_types::SignalId;

use super::*;
use crate::payload::Data;

/// Parts that a playbook writes are never null inside of events.
fn schema() -> impl Strategy<Value = Option<Json>> {
    option::of(some_json())
}

fn sleep() -> impl Strategy<Value = Sleep> {
    let length = option::of(count().prop_map(|ms| Millis::from_ms(u64::from(ms))));
    (time(), length).prop_map(|(until, length)| Sleep { until, length })
}

fn wait() -> impl Strategy<Value = Wait> {
    let awaited = (text(), option::of(text()), option::of(text()))
        .prop_map(|(name, key, label)| Awaited { name, key, label });
    let modes = prop::sample::select(vec![WaitMode::Any, WaitMode::All]);
    let signals = prop::collection::vec(awaited, 1..4);
    (signals, modes, count(), schema()).prop_map(|(signals, mode, lookback, schema)| Wait {
        signals,
        mode,
        lookback: Millis::from_ms(u64::from(lookback)),
        schema,
    })
}

fn approval() -> impl Strategy<Value = Approval> {
    let ends = vec![Unanswered::Fail, Unanswered::Reject, Unanswered::Approve];
    (
        (option::of(text()), option::of(text()), schema()),
        prop::collection::vec(text(), 0..3),
        count(),
        prop::sample::select(ends),
    )
        .prop_map(
            |((title, message, form), approvers, quorum, on_timeout)| Approval {
                title,
                message,
                form,
                approvers,
                quorum,
                on_timeout,
            },
        )
}

fn execution_id() -> impl Strategy<Value = ExecutionId> {
    event_id().prop_map(|id| ExecutionId::new(id.get()).unwrap())
}

fn child() -> impl Strategy<Value = ChildCall> {
    let of = prop_oneof![
        "[a-z]{1,5}/[a-z]{1,5}".prop_map(|path| ChildOf::Path(PlaybookPath::new(path).unwrap())),
        event_id().prop_map(|id| ChildOf::CatalogId(CatalogId::new(id.get()).unwrap())),
    ];
    let input = prop_oneof![
        map_of(json()).prop_map(|input| Data::Inline(input.into())),
        reference().prop_map(Data::External),
    ];
    let ends = prop::sample::select(vec![Overdue::Abandon, Overdue::Cancel]);
    let call = (execution_id(), of, option::of(count()), any::<bool>());
    (call, option::of(text()), ends, input).prop_map(
        |((child, of, version, waits), result_step, on_timeout, input)| ChildCall {
            child,
            of,
            version,
            waits,
            result_step,
            on_timeout,
            input,
        },
    )
}

/// What a task of a kind waits for.
pub(super) fn parked() -> BoxedStrategy<(ToolKind, Park)> {
    prop_oneof![
        sleep().prop_map(|sleep| (ToolKind::Sleep, Park::Sleep(sleep))),
        wait().prop_map(|wait| (ToolKind::Wait, Park::Wait(wait))),
        approval().prop_map(|approval| (ToolKind::Approval, Park::Approval(approval))),
        child().prop_map(|call| (ToolKind::Playbook, Park::Child(Box::new(call)))),
        error().prop_map(|error| {
            let broken = Broken { error };
            (ToolKind::Wait, Park::Broken(Box::new(broken)))
        }),
    ]
    .boxed()
}

pub(super) fn onward() -> impl Strategy<Value = Onward> {
    let label = || "[a-z]{1,5}".prop_map(Arc::<str>::from);
    let counts = (count(), count(), count());
    (
        label(),
        option::of(label()),
        map_of(json()),
        map_of(json()),
        counts,
    )
        .prop_map(
            |(to, after, variables, iter, (attempt, delay, task_runs))| Onward {
                to,
                attempt,
                delay: Millis::from_ms(u64::from(delay)),
                after,
                variables,
                iter,
                task_runs,
            },
        )
}

fn timer() -> impl Strategy<Value = CommandTimer> {
    prop::sample::select(CommandTimer::ALL.to_vec())
}

fn timer_started() -> impl Strategy<Value = TimerStarted> {
    let more = (
        option::of(execution_id()),
        option::of(some_json()),
        map_of(json()),
    );
    (at(), timer(), time(), more).prop_map(|(at, timer, fire_at, (child, started, set))| {
        TimerStarted {
            at,
            timer,
            fire_at,
            child,
            started,
            set,
        }
    })
}

fn signal() -> impl Strategy<Value = SignalReceived> {
    let taken = (at(), count(), option::of(time()), option::of(1..1000_i64)).prop_map(
        |(by, slot, lookback, kept)| Taken {
            by,
            slot,
            lookback,
            kept: kept.map(|seq| Seq::new(seq).unwrap()),
        },
    );
    let from = (option::of(text()), option::of(event_id()));
    (text(), option::of(text()), json(), from, option::of(taken)).prop_map(
        |(name, key, payload, (actor, broadcast), taken)| SignalReceived {
            name,
            key,
            payload,
            actor,
            broadcast: broadcast.map(|id| SignalId::new(id.get()).unwrap()),
            taken,
        },
    )
}

pub(super) fn kind() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        timer_started().prop_map(|started| EventKind::TimerStarted(Box::new(started))),
        (at(), timer(), time()).prop_map(|(at, timer, fire_at)| {
            EventKind::CommandTimerFired(Box::new(CommandTimerFired { at, timer, fire_at }))
        }),
        signal().prop_map(|signal| EventKind::SignalReceived(Box::new(signal))),
    ]
}
