//! Parses subscriptions.

mod headers;
mod source;
mod spool;

use std::sync::Arc;

use noetl_types::limits::DedupWindowSecs;

use crate::diag::DiagnosticSink;
use crate::model::{
    DispatchSpec, FetchConfig, SourceConnection, SourceMode, Subscription, SubscriptionDedup,
    SubscriptionLimits, SubscriptionSpec, ValueOrTemplate,
};
use crate::source::Spanned;
use crate::template::Template;
use crate::yaml::{YamlEntry, YamlNode};

use super::reader::{
    MapReader, read_bool, read_count, read_integer, read_keyword, report_wrong_type,
};
use super::resource::{
    parse_resource, read_literal, read_millis, read_playbook_path, read_pool_name,
    read_spanned_literal, report_no_effect,
};
use super::values::parse_setting;

/// Parses a subscription.
pub(super) fn parse_subscription(
    sink: &mut DiagnosticSink<'_>,
    root: &YamlNode,
    api_version: Option<Arc<str>>,
) -> Option<Subscription> {
    let (metadata, spec) = parse_resource(sink, root, "subscription", parse_subscription_spec)?;
    Some(Subscription { api_version: api_version?, kind: "Subscription".into(), metadata, spec })
}

fn parse_subscription_spec(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
) -> Option<SubscriptionSpec> {
    let mut reader = MapReader::open(sink, "spec", "spec", node)?;
    let source = source::parse_message_source(sink, &mut reader);
    let activation = reader
        .take_entry("activation")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    let connection = parse_connection(sink, &mut reader);
    let runtime = reader
        .take_entry("runtime")
        .map(|entry| parse_fetch_config(sink, entry))
        .unwrap_or_default();
    let dispatch =
        reader.require_entry(sink, "dispatch").and_then(|entry| parse_dispatch(sink, entry));
    let dedup =
        reader.take_entry("dedup").map(|entry| parse_dedup(sink, entry)).unwrap_or_default();
    let limits =
        reader.take_entry("limits").map(|entry| parse_limits(sink, entry)).unwrap_or_default();
    let headers = reader
        .take_entry("headers")
        .map(|entry| headers::parse_headers(sink, entry))
        .unwrap_or_default();
    let spool = reader.take_entry("spool").and_then(|entry| spool::parse_spool(sink, entry));
    reader.report_unread(sink);
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
            let entries = node.get("runtime").and_then(YamlNode::as_map).unwrap_or_default();
            if let Some(entry) = entries.iter().find(|entry| &*entry.key == key) {
                report_no_effect(sink, entry, "pushed messages are not fetched");
            }
        }
    }
    Some(spec)
}

fn parse_connection(sink: &mut DiagnosticSink<'_>, reader: &mut MapReader<'_>) -> SourceConnection {
    SourceConnection {
        auth: reader.take_entry("auth").and_then(|entry| read_spanned_literal(sink, entry)),
        url: reader.take_entry("url").and_then(|entry| read_literal(sink, entry)),
        user: reader.take_entry("user").and_then(|entry| read_literal(sink, entry)),
        password: reader.take_entry("password").and_then(|entry| read_literal(sink, entry)),
        token: reader.take_entry("token").and_then(|entry| read_literal(sink, entry)),
    }
}

fn parse_fetch_config(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> FetchConfig {
    let mut runtime = FetchConfig::default();
    let Some(mut reader) = MapReader::open(sink, "runtime", "runtime", &entry.value) else {
        return runtime;
    };
    runtime.target = reader.take_entry("target").and_then(|entry| read_literal(sink, entry));
    runtime.pool = reader.take_entry("pool").and_then(|entry| read_pool_name(sink, entry));
    if let Some(batch) = reader.take_entry("batch").and_then(|entry| read_batch_size(sink, entry)) {
        runtime.batch = batch;
    }
    runtime.timeout =
        reader.take_entry("timeout_ms").and_then(|entry| read_millis(sink, entry, 1..=5000));
    reader.report_unread(sink);
    runtime
}

/// Reads a batch size.
fn read_batch_size(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<u32> {
    read_integer(sink, entry, 1..=1000).and_then(|messages| u32::try_from(messages).ok())
}

fn parse_dispatch(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<DispatchSpec> {
    let mut reader = MapReader::open(sink, "dispatch", "dispatch", &entry.value)?;
    let playbook =
        reader.require_entry(sink, "playbook").and_then(|entry| read_playbook_path(sink, entry));
    let payload_from = reader
        .take_entry("payload_from")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    let execution_pool =
        reader.take_entry("execution_pool").and_then(|entry| read_pool_name(sink, entry));
    let batch_dispatch = reader
        .take_entry("batch_dispatch")
        .and_then(|entry| read_bool(sink, entry))
        .unwrap_or_default();
    let batch_entry = reader.take_entry("batch_max");
    let batch_max = batch_entry.and_then(|entry| read_batch_size(sink, entry));
    reader.report_unread(sink);
    if let (Some(entry), Some(_), false) = (batch_entry, batch_max, batch_dispatch) {
        report_no_effect(
            sink,
            entry,
            "executions are started one by one unless 'batch_dispatch' is true",
        );
    }
    Some(DispatchSpec {
        playbook: playbook?,
        payload_from,
        execution_pool,
        batch_dispatch,
        batch_max,
    })
}

fn parse_dedup(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> SubscriptionDedup {
    let Some(mut reader) = MapReader::open(sink, "dedup", "dedup", &entry.value) else {
        return SubscriptionDedup::default();
    };
    let enabled_entry = reader.take_entry("enabled");
    let window_entry = reader.take_entry("window_secs");
    let window = window_entry.and_then(|entry| {
        let range = i64::from(DedupWindowSecs::MIN.get())..=i64::from(DedupWindowSecs::MAX.get());
        read_integer(sink, entry, range).map(DedupWindowSecs::clamped)
    });
    let key_entry = reader.take_entry("key");
    let key = key_entry.and_then(|entry| parse_dedup_key(sink, entry));
    reader.report_unread(sink);
    if enabled_entry.is_none() {
        // Deduplication is off by default. Settings without `enabled` suggest that this was
        // overlooked.
        for entry in [window_entry, key_entry].into_iter().flatten() {
            report_no_effect(sink, entry, "add 'enabled: true'");
        }
    }
    SubscriptionDedup {
        enabled: enabled_entry.and_then(|entry| read_bool(sink, entry)).unwrap_or_default(),
        window: window.unwrap_or_default(),
        key,
    }
}

/// Parses the deduplication key, which must be a template: with a constant key, every message but
/// the first would be a duplicate.
fn parse_dedup_key(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Spanned<Template>> {
    sink.note_extension(entry.key_span, "dedup.key");
    let key = parse_setting(sink, &entry.value, |sink, node| {
        report_wrong_type(
            sink,
            "key",
            "a template of the message, such as \"{{ message.id }}\"",
            node,
        );
        None::<()>
    })?;
    match key {
        ValueOrTemplate::Template(template) => Some(template),
        ValueOrTemplate::Fixed(()) => None,
    }
}

fn parse_limits(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> SubscriptionLimits {
    let Some(mut reader) = MapReader::open(sink, "limits", "limits", &entry.value) else {
        return SubscriptionLimits::default();
    };
    let limits = SubscriptionLimits {
        max_in_flight: reader
            .take_entry("max_in_flight")
            .and_then(|entry| read_count(sink, entry, 1)),
        max_dispatch_per_sec: reader
            .take_entry("max_dispatch_per_sec")
            .and_then(|entry| read_count(sink, entry, 1)),
    };
    reader.report_unread(sink);
    limits
}
