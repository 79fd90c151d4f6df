//! W3C trace context.
//!
//! Ids are not random but derived from the log. A server that exports a span later, a worker that
//! propagates it, and a replay therefore all use the same id.

use std::fmt;

use crate::digest::{parse_hex, sha256_of_parts};
use crate::{CommandId, ExecutionId};

/// A span of a trace, as identified by a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
}

impl TraceContext {
    /// Parses a `traceparent`; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Future versions may append further parts.
        let [number] = parse_lower_hex(version)?;
        if number == 0xff || (number == 0 && parts.next().is_some()) {
            return None;
        }
        let [_] = parse_lower_hex(flags)?;
        let context = Self { trace: parse_lower_hex(trace)?, span: parse_lower_hex(span)? };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }

    /// Returns the span of an execution, in the trace that it was started in or in a new trace.
    pub fn for_execution(execution_id: ExecutionId, started_in: Option<Self>) -> Self {
        let id = execution_id.to_string();
        let digest = sha256_of_parts(&[b"noetl run ", id.as_bytes()]);
        let trace =
            started_in.map_or_else(|| nonzero_prefix(digest.as_bytes(), 0), |parent| parent.trace);
        Self { trace, span: nonzero_prefix(digest.as_bytes(), 16) }
    }

    /// Returns the span of one pass through a step.
    #[must_use]
    pub fn for_step(self, step: &str, run: u32) -> Self {
        self.child_span(&format!("step {step} {run}"))
    }

    /// Returns the span of one attempt of a command.
    #[must_use]
    pub fn for_attempt(self, command: CommandId, attempt: u32) -> Self {
        self.child_span(&format!("command {command} {attempt}"))
    }

    fn child_span(self, what: &str) -> Self {
        let digest = sha256_of_parts(&[&self.trace, &self.span, what.as_bytes()]);
        Self { span: nonzero_prefix(digest.as_bytes(), 0), ..self }
    }

    /// Returns the trace id in hexadecimal.
    pub fn trace_id(&self) -> String {
        to_hex(&self.trace)
    }

    /// Returns the span id in hexadecimal.
    pub fn span_id(&self) -> String {
        to_hex(&self.span)
    }
}

/// Formats as a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", self.trace_id(), self.span_id())
    }
}

/// Returns some bytes of a digest, never all zero.
fn nonzero_prefix<const N: usize>(digest: &[u8; 32], from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[from..from + N]);
    if bytes == [0; N] { [1; N] } else { bytes }
}

/// Parses lower-case hexadecimal digits.
fn parse_lower_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    parse_hex(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
