//! Strategies for events of suspended tasks.

use noetl_playbook::command_machine::Continuation;
use noetl_types::SignalId;

use super::*;
use crate::payload::EventData;

/// Never null, since the codec drops null parts.
fn arb_schema() -> impl Strategy<Value = Option<Json>> {
    option::of(arb_non_null_json())
}

fn arb_sleep() -> impl Strategy<Value = SleepSpec> {
    let length = option::of(arb_count().prop_map(|ms| Millis::from_ms(u64::from(ms))));
    (arb_time(), length).prop_map(|(until, length)| SleepSpec { until, length })
}

fn arb_signal_wait() -> impl Strategy<Value = SignalWait> {
    let awaited = (arb_text(), option::of(arb_text()), option::of(arb_text()))
        .prop_map(|(name, key, label)| AwaitedSignal { name, key, label });
    let modes = prop::sample::select(vec![WaitMode::Any, WaitMode::All]);
    let signals = prop::collection::vec(awaited, 1..4);
    (signals, modes, arb_count(), arb_schema()).prop_map(|(signals, mode, lookback, schema)| {
        SignalWait { signals, mode, lookback: Millis::from_ms(u64::from(lookback)), schema }
    })
}

fn arb_approval() -> impl Strategy<Value = ApprovalSpec> {
    let actions = vec![
        ApprovalTimeoutAction::Fail,
        ApprovalTimeoutAction::Reject,
        ApprovalTimeoutAction::Approve,
    ];
    (
        (option::of(arb_text()), option::of(arb_text()), arb_schema()),
        prop::collection::vec(arb_text(), 0..3),
        arb_count(),
        prop::sample::select(actions),
    )
        .prop_map(|((title, message, form), approvers, quorum, on_timeout)| ApprovalSpec {
            title,
            message,
            form,
            approvers,
            quorum,
            on_timeout,
        })
}

fn arb_execution_id() -> impl Strategy<Value = ExecutionId> {
    arb_event_id().prop_map(|id| ExecutionId::new(id.get()).unwrap())
}

fn arb_child_call() -> impl Strategy<Value = ChildCall> {
    let target = prop_oneof![
        "[a-z]{1,5}/[a-z]{1,5}"
            .prop_map(|path| ChildTarget::Path(PlaybookPath::new(path).unwrap())),
        arb_event_id().prop_map(|id| ChildTarget::CatalogId(CatalogId::new(id.get()).unwrap())),
    ];
    let input = prop_oneof![
        arb_map(arb_json()).prop_map(|input| EventData::Inline(input.into())),
        arb_reference().prop_map(EventData::External),
    ];
    let actions =
        prop::sample::select(vec![ChildTimeoutAction::Abandon, ChildTimeoutAction::Cancel]);
    let call = (arb_execution_id(), target, option::of(arb_count()), any::<bool>());
    (call, option::of(arb_text()), actions, input).prop_map(
        |((child, target, version, waits), result_step, on_timeout, input)| ChildCall {
            child,
            of: target,
            version,
            waits,
            result_step,
            on_timeout,
            input,
        },
    )
}

/// A tool kind with a matching suspension.
pub(super) fn arb_suspension() -> BoxedStrategy<(ToolKind, SuspensionKind)> {
    prop_oneof![
        arb_sleep().prop_map(|sleep| (ToolKind::Sleep, SuspensionKind::Sleep(sleep))),
        arb_signal_wait().prop_map(|wait| (ToolKind::Wait, SuspensionKind::Wait(wait))),
        arb_approval()
            .prop_map(|approval| (ToolKind::Approval, SuspensionKind::Approval(approval))),
        arb_child_call()
            .prop_map(|call| (ToolKind::Playbook, SuspensionKind::Child(Box::new(call)))),
        arb_error().prop_map(|error| {
            let broken = InvalidTaskConfig { error };
            (ToolKind::Wait, SuspensionKind::Broken(Box::new(broken)))
        }),
    ]
    .boxed()
}

pub(super) fn arb_continuation() -> impl Strategy<Value = Continuation> {
    let label = || "[a-z]{1,5}".prop_map(Arc::<str>::from);
    let counts = (arb_count(), arb_count(), arb_count());
    (label(), option::of(label()), arb_map(arb_json()), arb_map(arb_json()), counts).prop_map(
        |(to, after, variables, iter, (attempt, delay, task_runs))| Continuation {
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

fn arb_command_timer() -> impl Strategy<Value = CommandTimer> {
    prop::sample::select(CommandTimer::ALL.to_vec())
}

fn arb_timer_started() -> impl Strategy<Value = TimerStarted> {
    let more =
        (option::of(arb_execution_id()), option::of(arb_non_null_json()), arb_map(arb_json()));
    (arb_command_ref(), arb_command_timer(), arb_time(), more).prop_map(
        |(at, timer, fire_at, (child, started, set))| TimerStarted {
            at,
            timer,
            fire_at,
            child,
            started,
            set,
        },
    )
}

fn arb_signal_received() -> impl Strategy<Value = SignalReceived> {
    let delivery =
        (arb_command_ref(), arb_count(), option::of(arb_time()), option::of(1..1000_i64)).prop_map(
            |(consumer, awaited_index, received_at, buffered_seq)| SignalDelivery {
                consumer,
                awaited_index,
                received_at,
                buffered_seq: buffered_seq.map(|seq| Seq::new(seq).unwrap()),
            },
        );
    let sender = (option::of(arb_text()), option::of(arb_event_id()));
    (arb_text(), option::of(arb_text()), arb_json(), sender, option::of(delivery)).prop_map(
        |(name, key, payload, (actor, broadcast), delivery)| SignalReceived {
            name,
            key,
            payload,
            actor,
            broadcast: broadcast.map(|id| SignalId::new(id.get()).unwrap()),
            delivery,
        },
    )
}

pub(super) fn arb_suspension_event() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        arb_timer_started().prop_map(|started| EventKind::TimerStarted(Box::new(started))),
        (arb_command_ref(), arb_command_timer(), arb_time()).prop_map(|(at, timer, fire_at)| {
            EventKind::CommandTimerFired(Box::new(CommandTimerFired { at, timer, fire_at }))
        }),
        arb_signal_received().prop_map(|signal| EventKind::SignalReceived(Box::new(signal))),
    ]
}
