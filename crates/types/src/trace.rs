//! Where in a trace something happens, as W3C writes it.
//!
//! Ids are not drawn but derived, from what is in the log: so that a server that sends a span later,
//! a worker that names it to others, and a replay all mean the same one.

use std::fmt;

use crate::digest::sha256_of_parts;
use crate::{CommandId, ExecutionId};

/// A span of a trace: what a `traceparent` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
}

impl TraceContext {
    /// Reads a `traceparent`; nothing where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Versions to come may add parts behind these.
        let [number] = bytes(version)?;
        if number == 0xff || (number == 0 && parts.next().is_some()) {
            return None;
        }
        let [_] = bytes(flags)?;
        let context = Self {
            trace: bytes(trace)?,
            span: bytes(span)?,
        };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }

    /// The span of a run: within the trace that it was started in, or in one of its own.
    pub fn of_run(execution_id: ExecutionId, started_in: Option<Self>) -> Self {
        let id = execution_id.to_string();
        let digest = sha256_of_parts(&[b"noetl run ", id.as_bytes()]);
        let trace = started_in.map_or_else(|| first(digest.as_bytes(), 0), |given| given.trace);
        Self {
            trace,
            span: first(digest.as_bytes(), 16),
        }
    }

    /// The span of one run of a step.
    #[must_use]
    pub fn of_step(self, step: &str, run: u32) -> Self {
        self.within(&format!("step {step} {run}"))
    }

    /// The span of one attempt at a command.
    #[must_use]
    pub fn of_attempt(self, command: CommandId, attempt: u32) -> Self {
        self.within(&format!("command {command} {attempt}"))
    }

    fn within(self, what: &str) -> Self {
        let digest = sha256_of_parts(&[&self.trace, &self.span, what.as_bytes()]);
        Self {
            span: first(digest.as_bytes(), 0),
            ..self
        }
    }

    /// The trace, in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        hex(&self.trace)
    }

    /// The span, in hexadecimal digits.
    pub fn span_id(&self) -> String {
        hex(&self.span)
    }
}

/// As a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", self.trace_id(), self.span_id())
    }
}

/// Some bytes of a digest, never all zero.
fn first<const N: usize>(digest: &[u8; 32], from: usize) -> [u8; N] {
    let mut found = [0; N];
    for (to, byte) in found.iter_mut().zip(digest.iter().skip(from)) {
        *to = *byte;
    }
    if found == [0; N] {
        found = [1; N];
    }
    found
}

/// Bytes in lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(is_digit) {
        return None;
    }
    let mut found = [0; N];
    for (index, to) in found.iter_mut().enumerate() {
        *to = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_w3c_writes_is_read() {
        let given = TraceContext::parse(GIVEN).unwrap();
        assert_eq!(given.to_string(), GIVEN);
        let later = format!("cc{}-what-comes", &GIVEN[2..]);
        assert_eq!(TraceContext::parse(&later), Some(given));
        for wrong in [
            "",
            "00",
            &GIVEN[1..],
            &GIVEN.replace("4bf9", "4BF9"),
            &GIVEN.replace("00-4b", "ff-4b"),
            &format!("{GIVEN}-more"),
            &GIVEN.replace("00f067aa0ba902b7", "0000000000000000"),
            &GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ids_follow_from_what_they_are_of() {
        let run = ExecutionId::new(7001).unwrap();
        let given = TraceContext::parse(GIVEN).unwrap();
        let own = TraceContext::of_run(run, None);
        assert_eq!(own, TraceContext::of_run(run, None));
        let inside = TraceContext::of_run(run, Some(given));
        assert_eq!(inside.trace_id(), given.trace_id());
        assert_ne!(inside.span_id(), given.span_id());
        let command = CommandId::new(7002).unwrap();
        let spans = [
            own.span_id(),
            own.of_step("a", 1).span_id(),
            own.of_step("a", 2).span_id(),
            own.of_attempt(command, 1).span_id(),
            own.of_attempt(command, 2).span_id(),
        ];
        let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
        assert_eq!(distinct.len(), spans.len());
    }
}
