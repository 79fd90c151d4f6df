//! Parses message sources.

use std::sync::Arc;

use noetl_types::Millis;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    MessageSource, MessageVerifier, PushIngress, SourceKind, SourceMode, VerifierType,
};
use crate::parse::reader::{MapReader, read_integer, read_keyword, read_text};
use crate::parse::resource::{
    read_literal, read_literals, read_spanned_literal, report_conflict, report_no_effect,
    require_literal,
};
use crate::source::{Span, Spanned};
use crate::yaml::YamlEntry;

/// Keys that identify a source, and the kind of source to which each belongs.
const SOURCE_KEYS: [(&str, SourceKind); 7] = [
    ("stream", SourceKind::Nats),
    ("consumer", SourceKind::Nats),
    ("subscription", SourceKind::Pubsub),
    ("endpoint", SourceKind::Pubsub),
    ("brokers", SourceKind::Kafka),
    ("topic", SourceKind::Kafka),
    ("group", SourceKind::Kafka),
];

/// Parses the message source.
pub(super) fn parse_message_source(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<MessageSource> {
    let kind = reader
        .require_entry(sink, "source")
        .and_then(|entry| read_spanned_keyword::<SourceKind>(sink, entry));
    let written_mode =
        reader.take_entry("mode").and_then(|entry| read_spanned_keyword::<SourceMode>(sink, entry));
    let ingress_entry = reader.take_entry("ingress");
    let ingress = ingress_entry.map(|entry| parse_ingress(sink, entry));
    reader.mark_known(SOURCE_KEYS.map(|(key, _)| key));
    let kind = kind?;
    report_foreign_keys(sink, reader, kind.value);
    let mode = resolve_source_mode(sink, kind, written_mode);
    let ingress = if mode == SourceMode::Push {
        let span = written_mode.map_or(kind.span, |mode| mode.span);
        ingress.unwrap_or_else(|| report_unverified(sink, span))
    } else {
        // A mode that the source does not support has already been reported.
        if let Some(entry) = ingress_entry
            && written_mode.is_none_or(|written| written.value == mode)
        {
            report_no_effect(sink, entry, "an ingress address is used only in mode push");
        }
        None
    };
    match kind.value {
        SourceKind::Nats => parse_nats_source(sink, reader),
        SourceKind::Kafka => parse_kafka_source(sink, reader),
        SourceKind::Pubsub if mode == SourceMode::Push => {
            parse_pubsub_push_source(sink, reader, ingress)
        }
        SourceKind::Pubsub => parse_pubsub_source(sink, reader),
        SourceKind::Webhook => ingress.map(|ingress| MessageSource::Webhook { ingress }),
    }
}

fn read_spanned_keyword<W: crate::string_enum::StringEnum>(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<W>> {
    read_keyword(sink, entry).map(|keyword| Spanned::new(keyword, entry.value.span))
}

/// Returns the mode as written, if the source supports it, else the only supported mode.
fn resolve_source_mode(
    sink: &mut DiagnosticSink<'_>,
    kind: Spanned<SourceKind>,
    written: Option<Spanned<SourceMode>>,
) -> SourceMode {
    let only = match kind.value {
        SourceKind::Nats | SourceKind::Kafka => SourceMode::Pull,
        SourceKind::Webhook => SourceMode::Push,
        SourceKind::Pubsub => return written.map_or(SourceMode::Pull, |mode| mode.value),
    };
    if let Some(written) = written.filter(|written| written.value != only) {
        let message =
            format!("source {} cannot be combined with mode {}", kind.value, written.value);
        report_conflict(sink, [kind.span, written.span], message, &format!("write mode: {only}"));
    }
    only
}

fn report_foreign_keys(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    kind: SourceKind,
) {
    for (key, owner) in SOURCE_KEYS {
        if owner != kind
            && let Some(entry) = reader.take_entry(key)
        {
            report_no_effect(
                sink,
                entry,
                format!("it applies to source {owner}, but this source is {kind}"),
            );
        }
    }
}

fn parse_nats_source(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<MessageSource> {
    let stream = require_literal(sink, reader, "stream");
    let consumer = require_literal(sink, reader, "consumer");
    Some(MessageSource::Nats { stream: stream?, consumer: consumer? })
}

fn parse_pubsub_source(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<MessageSource> {
    let subscription = require_literal(sink, reader, "subscription");
    let endpoint = reader.take_entry("endpoint").and_then(|entry| read_literal(sink, entry));
    Some(MessageSource::Pubsub { subscription: subscription?, endpoint })
}

/// Parses a Pub/Sub push source. Pub/Sub sends to the ingress address, so subscription and endpoint
/// are optional.
fn parse_pubsub_push_source(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    ingress: Option<PushIngress>,
) -> Option<MessageSource> {
    let subscription =
        reader.take_entry("subscription").and_then(|entry| read_literal(sink, entry));
    let endpoint = reader.take_entry("endpoint").and_then(|entry| read_literal(sink, entry));
    Some(MessageSource::PubsubPush { subscription, endpoint, ingress: ingress? })
}

fn parse_kafka_source(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<MessageSource> {
    // The credential may contain the brokers.
    let has_credential = reader.take_entry("auth").is_some();
    let entry = if has_credential {
        reader.take_entry("brokers")
    } else {
        reader.require_entry(sink, "brokers")
    };
    let brokers = entry.map(|entry| read_literals(sink, entry)).unwrap_or_default();
    if let Some(entry) = entry
        && entry.value.as_list().is_some_and(<[_]>::is_empty)
    {
        sink.add_finding(
            Code::NP006,
            entry.value.span,
            "'brokers' must be a list of strings, found an empty list",
        );
    }
    let topic = require_literal(sink, reader, "topic");
    let group = require_literal(sink, reader, "group");
    let brokers = brokers.into_iter().map(|broker| broker.value).collect();
    Some(MessageSource::Kafka { brokers, topic: topic?, group: group? })
}

/// Reports an address that accepts unauthenticated messages.
fn report_unverified<T>(sink: &mut DiagnosticSink<'_>, span: Span) -> Option<T> {
    let hint =
        "add ingress: {gateway_path: /hooks/…, verify: {type: hmac_sha256, header: …, secret: …}}";
    sink.add_with_hint(Code::NP703, span, "webhook needs a verifier other than none", hint);
    None
}

fn parse_ingress(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<PushIngress> {
    let mut reader = MapReader::open(sink, "ingress", "ingress", &entry.value)?;
    let gateway_path =
        reader.require_entry(sink, "gateway_path").and_then(|entry| read_gateway_path(sink, entry));
    let verify = match reader.take_entry("verify") {
        Some(entry) => parse_verifier(sink, entry),
        None => report_unverified(sink, entry.value.head_span()),
    };
    reader.report_unread(sink);
    Some(PushIngress { gateway_path: gateway_path?, verify: verify? })
}

fn read_gateway_path(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Arc<str>> {
    let path = read_literal(sink, entry)?;
    let is_segment = |segment: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        !matches!(segment, "" | "." | "..") && segment.chars().all(is_allowed)
    };
    let is_path = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment));
    if is_path && path.len() <= 512 {
        return Some(path);
    }
    let hint = "a path consists of '/' and segments of letters, digits, '-', '_', '.' and '~'; the last segment names the listener";
    sink.add_with_hint(
        Code::NP013,
        entry.value.span,
        format!("'{path}' is not a valid name"),
        hint,
    );
    None
}

/// Keys of all types of verifiers.
const VERIFY_KEYS: [&str; 6] =
    ["header", "secret", "timestamp_header", "tolerance_secs", "audience", "service_account"];

fn parse_verifier(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<MessageVerifier> {
    let mut reader = MapReader::open(sink, "verify", "verify", &entry.value)?;
    reader.mark_known(VERIFY_KEYS);
    let verify = reader.require_entry(sink, "type").and_then(|entry| {
        if has_text(entry, "none") {
            return report_unverified(sink, entry.value.span);
        }
        let kind = read_keyword::<VerifierType>(sink, entry)?;
        let used = verifier_keys(kind);
        for key in VERIFY_KEYS.into_iter().filter(|key| !used.contains(key)) {
            if let Some(entry) = reader.take_entry(key) {
                report_no_effect(sink, entry, format!("it does not apply to type {kind}"));
            }
        }
        parse_verifier_of_type(sink, &mut reader, kind)
    });
    reader.report_unread(sink);
    verify
}

fn has_text(entry: &YamlEntry, text: &str) -> bool {
    entry.value.as_text().is_some_and(|written| &**written == text)
}

fn verifier_keys(kind: VerifierType) -> &'static [&'static str] {
    match kind {
        VerifierType::HmacSha256 => &["header", "secret", "timestamp_header", "tolerance_secs"],
        VerifierType::Bearer => &["header", "secret"],
        VerifierType::PubsubOidc => &["audience", "service_account"],
    }
}

fn parse_verifier_of_type(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    kind: VerifierType,
) -> Option<MessageVerifier> {
    match kind {
        VerifierType::HmacSha256 => {
            let header = reader
                .require_entry(sink, "header")
                .and_then(|entry| read_header_name(sink, entry));
            let secret = reader
                .require_entry(sink, "secret")
                .and_then(|entry| read_spanned_literal(sink, entry));
            for key in ["timestamp_header", "tolerance_secs"] {
                if let Some(entry) = reader.take_entry(key) {
                    sink.note_extension(entry.key_span, key);
                }
            }
            let timestamp_header = reader
                .take_entry("timestamp_header")
                .and_then(|entry| read_header_name(sink, entry));
            let tolerance = reader
                .take_entry("tolerance_secs")
                .and_then(|entry| read_integer(sink, entry, 1..=86_400))
                .and_then(|secs| u64::try_from(secs).ok())
                .map_or(MessageVerifier::DEFAULT_TOLERANCE, Millis::from_secs);
            Some(MessageVerifier::HmacSha256 {
                header: header?,
                secret: secret?,
                timestamp_header,
                tolerance,
            })
        }
        VerifierType::Bearer => {
            let header =
                reader.take_entry("header").and_then(|entry| read_header_name(sink, entry));
            let secret = reader
                .require_entry(sink, "secret")
                .and_then(|entry| read_spanned_literal(sink, entry));
            Some(MessageVerifier::Bearer { header, secret: secret? })
        }
        VerifierType::PubsubOidc => {
            let audience = require_literal(sink, reader, "audience");
            let service_account = require_literal(sink, reader, "service_account");
            Some(MessageVerifier::PubsubOidc {
                audience: audience?,
                service_account: service_account?,
            })
        }
    }
}

/// Reads the name of an HTTP header.
fn read_header_name(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Arc<str>> {
    let name = read_text(sink, entry)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !name.is_empty() && name.chars().all(is_allowed) {
        return Some(name);
    }
    let hint = "a header name consists of letters, digits and '-'";
    sink.add_with_hint(
        Code::NP013,
        entry.value.span,
        format!("'{name}' is not a valid name"),
        hint,
    );
    None
}
