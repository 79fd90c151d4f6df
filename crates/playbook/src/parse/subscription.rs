//! Subscriptions.

mod headers;
mod source;
mod spool;

use std::sync::Arc;

use noetl_types::limits::DedupWindowSecs;

use crate::diag::Sink;
use crate::model::{
    Connection, Dispatch, Runtime, Setting, SourceMode, Subscription, SubscriptionDedup,
    SubscriptionLimits, SubscriptionSpec,
};
use crate::source::Spanned;
use crate::template::Template;
use crate::yaml::{Entry, Node};

use super::reader::{MapReader, bool, count, integer, word, wrong_type};
use super::resource::{document, literal, millis, no_effect, playbook_path, pool, spanned_literal};
use super::values::setting;

/// Reads a subscription.
pub(super) fn subscription(
    sink: &mut Sink<'_>,
    root: &Node,
    api_version: Option<Arc<str>>,
) -> Option<Subscription> {
    let (metadata, spec) = document(sink, (root, "subscription"), spec)?;
    Some(Subscription {
        api_version: api_version?,
        kind: "Subscription".into(),
        metadata,
        spec,
    })
}

fn spec(sink: &mut Sink<'_>, node: &Node) -> Option<SubscriptionSpec> {
    let mut reader = MapReader::open(sink, "spec", "spec", node)?;
    let source = source::source(sink, &mut reader);
    let activation = reader
        .take("activation")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    let connection = connection(sink, &mut reader);
    let runtime = reader
        .take("runtime")
        .map(|entry| runtime(sink, entry))
        .unwrap_or_default();
    let dispatch = reader
        .require(sink, "dispatch")
        .and_then(|entry| dispatch(sink, entry));
    let dedup = reader
        .take("dedup")
        .map(|entry| dedup(sink, entry))
        .unwrap_or_default();
    let limits = reader
        .take("limits")
        .map(|entry| limits(sink, entry))
        .unwrap_or_default();
    let headers = reader
        .take("headers")
        .map(|entry| headers::headers(sink, entry))
        .unwrap_or_default();
    let spool = reader
        .take("spool")
        .and_then(|entry| spool::spool(sink, entry));
    reader.finish(sink);
    let spec = SubscriptionSpec {
        source: source?,
        activation,
        connection,
        runtime,
        dispatch: dispatch?,
        dedup,
        limits,
        headers,
        spool,
    };
    if spec.source.mode() == SourceMode::Push {
        for key in ["batch", "timeout_ms"] {
            let entries = node
                .get("runtime")
                .and_then(Node::as_map)
                .unwrap_or_default();
            if let Some(entry) = entries.iter().find(|entry| &*entry.key == key) {
                no_effect(sink, entry, "messages that are pushed are not fetched");
            }
        }
    }
    Some(spec)
}

fn connection(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Connection {
    Connection {
        auth: reader
            .take("auth")
            .and_then(|entry| spanned_literal(sink, entry)),
        url: reader.take("url").and_then(|entry| literal(sink, entry)),
        user: reader.take("user").and_then(|entry| literal(sink, entry)),
        password: reader
            .take("password")
            .and_then(|entry| literal(sink, entry)),
        token: reader.take("token").and_then(|entry| literal(sink, entry)),
    }
}

fn runtime(sink: &mut Sink<'_>, entry: &Entry) -> Runtime {
    let mut runtime = Runtime::default();
    let Some(mut reader) = MapReader::open(sink, "runtime", "runtime", &entry.value) else {
        return runtime;
    };
    runtime.target = reader.take("target").and_then(|entry| literal(sink, entry));
    runtime.pool = reader.take("pool").and_then(|entry| pool(sink, entry));
    if let Some(batch) = reader.take("batch").and_then(|entry| messages(sink, entry)) {
        runtime.batch = batch;
    }
    runtime.timeout = reader
        .take("timeout_ms")
        .and_then(|entry| millis(sink, entry, 1..=5000));
    reader.finish(sink);
    runtime
}

/// A number of messages that are taken together.
fn messages(sink: &mut Sink<'_>, entry: &Entry) -> Option<u32> {
    integer(sink, entry, 1..=1000).and_then(|messages| u32::try_from(messages).ok())
}

fn dispatch(sink: &mut Sink<'_>, entry: &Entry) -> Option<Dispatch> {
    let mut reader = MapReader::open(sink, "dispatch", "dispatch", &entry.value)?;
    let playbook = reader
        .require(sink, "playbook")
        .and_then(|entry| playbook_path(sink, entry));
    let payload_from = reader
        .take("payload_from")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    let execution_pool = reader
        .take("execution_pool")
        .and_then(|entry| pool(sink, entry));
    let batch_dispatch = reader
        .take("batch_dispatch")
        .and_then(|entry| bool(sink, entry))
        .unwrap_or_default();
    let batch_entry = reader.take("batch_max");
    let batch_max = batch_entry.and_then(|entry| messages(sink, entry));
    reader.finish(sink);
    if let (Some(entry), Some(_), false) = (batch_entry, batch_max, batch_dispatch) {
        no_effect(
            sink,
            entry,
            "executions are started one by one unless 'batch_dispatch' is true",
        );
    }
    Some(Dispatch {
        playbook: playbook?,
        payload_from,
        execution_pool,
        batch_dispatch,
        batch_max,
    })
}

fn dedup(sink: &mut Sink<'_>, entry: &Entry) -> SubscriptionDedup {
    let Some(mut reader) = MapReader::open(sink, "dedup", "dedup", &entry.value) else {
        return SubscriptionDedup::default();
    };
    let switch = reader.take("enabled");
    let window_entry = reader.take("window_secs");
    let window = window_entry.and_then(|entry| {
        let range = i64::from(DedupWindowSecs::MIN.get())..=i64::from(DedupWindowSecs::MAX.get());
        integer(sink, entry, range).map(DedupWindowSecs::clamped)
    });
    let key_entry = reader.take("key");
    let key = key_entry.and_then(|entry| dedup_key(sink, entry));
    reader.finish(sink);
    if switch.is_none() {
        // Whoever says how, but not whether, has most likely forgotten that it is off by default.
        for entry in [window_entry, key_entry].into_iter().flatten() {
            no_effect(sink, entry, "add 'enabled: true'");
        }
    }
    SubscriptionDedup {
        enabled: switch
            .and_then(|entry| bool(sink, entry))
            .unwrap_or_default(),
        window: window.unwrap_or_default(),
        key,
    }
}

/// A fixed key would make a duplicate of every message but the first.
fn dedup_key(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Template>> {
    sink.addition(entry.key_span, "dedup.key");
    let key = setting(sink, &entry.value, |sink, node| {
        wrong_type(
            sink,
            "key",
            "a template of the message, such as \"{{ message.id }}\"",
            node,
        );
        None::<()>
    })?;
    match key {
        Setting::Template(template) => Some(template),
        Setting::Fixed(()) => None,
    }
}

fn limits(sink: &mut Sink<'_>, entry: &Entry) -> SubscriptionLimits {
    let Some(mut reader) = MapReader::open(sink, "limits", "limits", &entry.value) else {
        return SubscriptionLimits::default();
    };
    let limits = SubscriptionLimits {
        max_in_flight: reader
            .take("max_in_flight")
            .and_then(|entry| count(sink, entry, 1)),
        max_dispatch_per_sec: reader
            .take("max_dispatch_per_sec")
            .and_then(|entry| count(sink, entry, 1)),
    };
    reader.finish(sink);
    limits
}
