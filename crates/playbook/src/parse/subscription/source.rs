//! Where messages come from.

use std::sync::Arc;

use noetl_types::Millis;

use crate::diag::{Code, Sink};
use crate::model::{Ingress, Source, SourceKind, SourceMode, Verify, VerifyType};
use crate::parse::reader::{MapReader, integer, text, word};
use crate::parse::resource::{
    conflict, literal, literals, no_effect, required_literal, spanned_literal,
};
use crate::source::{Span, Spanned};
use crate::yaml::Entry;

/// Keys that tell where a source is, with the source that they belong to.
const COORDINATES: [(&str, SourceKind); 7] = [
    ("stream", SourceKind::Nats),
    ("consumer", SourceKind::Nats),
    ("subscription", SourceKind::Pubsub),
    ("endpoint", SourceKind::Pubsub),
    ("brokers", SourceKind::Kafka),
    ("topic", SourceKind::Kafka),
    ("group", SourceKind::Kafka),
];

/// Where messages come from.
pub(super) fn source(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Option<Source> {
    let kind = reader
        .require(sink, "source")
        .and_then(|entry| spanned_word::<SourceKind>(sink, entry));
    let written_mode = reader
        .take("mode")
        .and_then(|entry| spanned_word::<SourceMode>(sink, entry));
    let ingress_entry = reader.take("ingress");
    let ingress = ingress_entry.map(|entry| ingress(sink, entry));
    reader.know(COORDINATES.map(|(key, _)| key));
    let kind = kind?;
    foreign_coordinates(sink, reader, kind.value);
    let mode = mode(sink, kind, written_mode);
    let ingress = if mode == SourceMode::Push {
        let at = written_mode.map_or(kind.span, |mode| mode.span);
        ingress.unwrap_or_else(|| unverified(sink, at))
    } else {
        // Whoever asked for a push has already been told that there is none.
        if let Some(entry) = ingress_entry
            && written_mode.is_none_or(|written| written.value == mode)
        {
            no_effect(
                sink,
                entry,
                "only messages that are pushed have an address to be sent to",
            );
        }
        None
    };
    match kind.value {
        SourceKind::Nats => nats(sink, reader),
        SourceKind::Kafka => kafka(sink, reader),
        SourceKind::Pubsub if mode == SourceMode::Push => pubsub_push(sink, reader, ingress),
        SourceKind::Pubsub => pubsub(sink, reader),
        SourceKind::Webhook => ingress.map(|ingress| Source::Webhook { ingress }),
    }
}

fn spanned_word<W: crate::words::Word>(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<W>> {
    word(sink, entry).map(|word| Spanned::new(word, entry.value.span))
}

/// Who begins: what was written, if the source can do it.
fn mode(
    sink: &mut Sink<'_>,
    kind: Spanned<SourceKind>,
    written: Option<Spanned<SourceMode>>,
) -> SourceMode {
    let only = match kind.value {
        SourceKind::Nats | SourceKind::Kafka => SourceMode::Pull,
        SourceKind::Webhook => SourceMode::Push,
        SourceKind::Pubsub => return written.map_or(SourceMode::Pull, |mode| mode.value),
    };
    if let Some(written) = written.filter(|written| written.value != only) {
        let message = format!(
            "source {} cannot be combined with mode {}",
            kind.value, written.value
        );
        conflict(
            sink,
            [kind.span, written.span],
            message,
            &format!("write mode: {only}"),
        );
    }
    only
}

fn foreign_coordinates(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, kind: SourceKind) {
    for (key, owner) in COORDINATES {
        if owner != kind
            && let Some(entry) = reader.take(key)
        {
            no_effect(
                sink,
                entry,
                format!("it belongs to source {owner}, and this one is {kind}"),
            );
        }
    }
}

fn nats(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Option<Source> {
    let stream = required_literal(sink, reader, "stream");
    let consumer = required_literal(sink, reader, "consumer");
    Some(Source::Nats {
        stream: stream?,
        consumer: consumer?,
    })
}

fn pubsub(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Option<Source> {
    let subscription = required_literal(sink, reader, "subscription");
    let endpoint = reader
        .take("endpoint")
        .and_then(|entry| literal(sink, entry));
    Some(Source::Pubsub {
        subscription: subscription?,
        endpoint,
    })
}

/// Pub/Sub finds the address by itself, so what tells where it is need not be said.
fn pubsub_push(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    ingress: Option<Ingress>,
) -> Option<Source> {
    let subscription = reader
        .take("subscription")
        .and_then(|entry| literal(sink, entry));
    let endpoint = reader
        .take("endpoint")
        .and_then(|entry| literal(sink, entry));
    Some(Source::PubsubPush {
        subscription,
        endpoint,
        ingress: ingress?,
    })
}

fn kafka(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Option<Source> {
    // A credential may know the brokers.
    let credential = reader.take("auth").is_some();
    let entry = if credential {
        reader.take("brokers")
    } else {
        reader.require(sink, "brokers")
    };
    let brokers = entry.map(|entry| literals(sink, entry)).unwrap_or_default();
    if let Some(entry) = entry
        && entry.value.as_list().is_some_and(<[_]>::is_empty)
    {
        sink.add(
            Code::NP006,
            entry.value.span,
            "'brokers' must be a list of texts, found an empty list",
        );
    }
    let topic = required_literal(sink, reader, "topic");
    let group = required_literal(sink, reader, "group");
    let brokers = brokers.into_iter().map(|broker| broker.value).collect();
    Some(Source::Kafka {
        brokers,
        topic: topic?,
        group: group?,
    })
}

/// Reports an address that anyone could send to.
fn unverified<T>(sink: &mut Sink<'_>, at: Span) -> Option<T> {
    let hint =
        "add ingress: {gateway_path: /hooks/…, verify: {type: hmac_sha256, header: …, secret: …}}";
    sink.hinted(
        Code::NP703,
        at,
        "webhook needs a verifier other than none",
        hint,
    );
    None
}

fn ingress(sink: &mut Sink<'_>, entry: &Entry) -> Option<Ingress> {
    let mut reader = MapReader::open(sink, "ingress", "ingress", &entry.value)?;
    let gateway_path = reader
        .require(sink, "gateway_path")
        .and_then(|entry| gateway_path(sink, entry));
    let verify = match reader.take("verify") {
        Some(entry) => verify(sink, entry),
        None => unverified(sink, entry.value.head()),
    };
    reader.finish(sink);
    Some(Ingress {
        gateway_path: gateway_path?,
        verify: verify?,
    })
}

fn gateway_path(sink: &mut Sink<'_>, entry: &Entry) -> Option<Arc<str>> {
    let path = literal(sink, entry)?;
    let is_segment = |segment: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        !matches!(segment, "" | "." | "..") && segment.chars().all(fits)
    };
    let is_path = path
        .strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(is_segment));
    if is_path && path.len() <= 512 {
        return Some(path);
    }
    let hint = "a path is '/' and names of letters, digits, '-', '_', '.' and '~'; the last one names the listener";
    sink.hinted(
        Code::NP013,
        entry.value.span,
        format!("'{path}' is not a valid name"),
        hint,
    );
    None
}

/// Keys of a verifier, whatever its type.
const VERIFY_KEYS: [&str; 6] = [
    "header",
    "secret",
    "timestamp_header",
    "tolerance_secs",
    "audience",
    "service_account",
];

fn verify(sink: &mut Sink<'_>, entry: &Entry) -> Option<Verify> {
    let mut reader = MapReader::open(sink, "verify", "verify", &entry.value)?;
    reader.know(VERIFY_KEYS);
    let verify = reader.require(sink, "type").and_then(|entry| {
        if text_is(entry, "none") {
            return unverified(sink, entry.value.span);
        }
        let kind = word::<VerifyType>(sink, entry)?;
        let used = used_keys(kind);
        for key in VERIFY_KEYS.into_iter().filter(|key| !used.contains(key)) {
            if let Some(entry) = reader.take(key) {
                no_effect(sink, entry, format!("it does not belong to type {kind}"));
            }
        }
        verify_by(sink, &mut reader, kind)
    });
    reader.finish(sink);
    verify
}

fn text_is(entry: &Entry, text: &str) -> bool {
    entry
        .value
        .as_text()
        .is_some_and(|written| &**written == text)
}

fn used_keys(kind: VerifyType) -> &'static [&'static str] {
    match kind {
        VerifyType::HmacSha256 => &["header", "secret", "timestamp_header", "tolerance_secs"],
        VerifyType::Bearer => &["header", "secret"],
        VerifyType::PubsubOidc => &["audience", "service_account"],
    }
}

fn verify_by(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, kind: VerifyType) -> Option<Verify> {
    match kind {
        VerifyType::HmacSha256 => {
            let header = reader
                .require(sink, "header")
                .and_then(|entry| header_name(sink, entry));
            let secret = reader
                .require(sink, "secret")
                .and_then(|entry| spanned_literal(sink, entry));
            for key in ["timestamp_header", "tolerance_secs"] {
                if let Some(entry) = reader.take(key) {
                    sink.addition(entry.key_span, key);
                }
            }
            let timestamp_header = reader
                .take("timestamp_header")
                .and_then(|entry| header_name(sink, entry));
            let tolerance = reader
                .take("tolerance_secs")
                .and_then(|entry| integer(sink, entry, 1..=86_400))
                .and_then(|secs| u64::try_from(secs).ok())
                .map_or(Verify::TOLERANCE, Millis::from_secs);
            Some(Verify::HmacSha256 {
                header: header?,
                secret: secret?,
                timestamp_header,
                tolerance,
            })
        }
        VerifyType::Bearer => {
            let header = reader
                .take("header")
                .and_then(|entry| header_name(sink, entry));
            let secret = reader
                .require(sink, "secret")
                .and_then(|entry| spanned_literal(sink, entry));
            Some(Verify::Bearer {
                header,
                secret: secret?,
            })
        }
        VerifyType::PubsubOidc => {
            let audience = required_literal(sink, reader, "audience");
            let service_account = required_literal(sink, reader, "service_account");
            Some(Verify::PubsubOidc {
                audience: audience?,
                service_account: service_account?,
            })
        }
    }
}

/// The name of a header of HTTP.
fn header_name(sink: &mut Sink<'_>, entry: &Entry) -> Option<Arc<str>> {
    let name = text(sink, entry)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !name.is_empty() && name.chars().all(fits) {
        return Some(name);
    }
    let hint = "the name of a header has letters, digits and '-'";
    sink.hinted(
        Code::NP013,
        entry.value.span,
        format!("'{name}' is not a valid name"),
        hint,
    );
    None
}
