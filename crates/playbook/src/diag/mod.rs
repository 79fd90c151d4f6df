//! Diagnostics: all findings about a document, in document order.

mod codes;

use serde::Serialize;

pub use codes::{Code, Severity};

use crate::source::{DocumentText, Span};
use crate::yaml::{YamlNode, path_at};

/// A finding with its position in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Code of the diagnostic.
    #[serde(serialize_with = "as_text")]
    pub code: Code,
    /// Severity of the diagnostic.
    #[serde(serialize_with = "as_text")]
    pub severity: Severity,
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// First line, from 1.
    pub line: u32,
    /// First column in characters, from 1.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// One past the last column.
    pub end_column: u32,
    /// Path in the document's structure, such as `workflow[2].tool.spec`.
    pub path: String,
    /// Position in bytes, for source excerpts.
    #[serde(skip)]
    pub span: Span,
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(value)
}

/// A finding whose position is not resolved yet.
#[derive(Debug)]
struct PendingDiagnostic {
    code: Code,
    span: Span,
    message: String,
    hint: Option<String>,
}

/// Collects findings in the order in which they are reported.
#[derive(Debug)]
pub(crate) struct DiagnosticSink<'t> {
    pub(crate) source: DocumentText<'t>,
    findings: Vec<PendingDiagnostic>,
    omitted_count: usize,
    has_error: bool,
    portable: bool,
}

/// Maximum number of findings reported per document. More are only counted.
const MAX_FINDINGS: usize = 500;

impl<'t> DiagnosticSink<'t> {
    pub(crate) fn new(source: DocumentText<'t>, portable: bool) -> Self {
        Self { source, findings: Vec::new(), omitted_count: 0, has_error: false, portable }
    }

    /// Adds a finding.
    pub(crate) fn add_finding(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.push_finding(code, span, message.into(), None);
    }

    /// Adds a finding with a suggested fix.
    pub(crate) fn add_with_hint(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push_finding(code, span, message.into(), Some(hint.into()));
    }

    /// Adds a finding about a name that may be misspelled.
    pub(crate) fn add_with_suggestion(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        nearest: Option<&str>,
    ) {
        let hint = nearest.map(|nearest| format!("did you mean '{nearest}'?"));
        self.push_finding(code, span, message.into(), hint);
    }

    /// Reports the use of an extension to the classic language, if portability was requested.
    pub(crate) fn note_extension(&mut self, span: Span, key: &str) {
        if self.portable {
            self.add_finding(
                Code::NP020,
                span,
                format!("'{key}' is an extension and is not portable"),
            );
        }
    }

    /// True if any finding so far rejects the document.
    pub(crate) fn has_errors(&self) -> bool {
        self.has_error
    }

    fn push_finding(&mut self, code: Code, span: Span, message: String, hint: Option<String>) {
        self.has_error |= code.severity() == Severity::Error;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(PendingDiagnostic { code, span, message, hint });
        } else {
            self.omitted_count += 1;
        }
    }

    /// Returns the number of findings beyond the limit.
    pub(crate) fn omitted_count(&self) -> usize {
        self.omitted_count
    }

    /// Returns the diagnostics in document order, without duplicates.
    pub(crate) fn into_diagnostics(mut self, root: Option<&YamlNode>) -> Vec<Diagnostic> {
        // A YAML alias causes its anchor to be parsed repeatedly, which reports the same finding
        // again.
        self.findings.sort_by_key(|finding| (finding.span, finding.code));
        self.findings
            .dedup_by(|a, b| a.span == b.span && a.code == b.code && a.message == b.message);
        let source = self.source;
        self.findings
            .into_iter()
            .map(|finding| {
                let start = source.position(finding.span.start);
                let end = source.position(finding.span.end);
                Diagnostic {
                    code: finding.code,
                    severity: finding.code.severity(),
                    message: finding.message,
                    hint: finding.hint,
                    line: start.line,
                    column: start.column,
                    end_line: end.line,
                    end_column: end.column,
                    path: root.map(|root| path_at(root, finding.span.start)).unwrap_or_default(),
                    span: finding.span,
                }
            })
            .collect()
    }
}

/// Returns the candidate closest to `name`, at most two edits away. Ties go to the first candidate.
pub(crate) fn nearest_name<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    nearest_name_within(2, name, candidates)
}

/// Returns the candidate closest to `name`, at most `max_edits` away.
pub(crate) fn nearest_name_within<'c>(
    max_edits: usize,
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let folded = name.to_lowercase();
    let length = folded.chars().count();
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        // The edit distance is at least the difference in length, so this avoids computing it.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= max_edits)
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase()), candidate))
        // Two edits turn any two-letter word into any other, so the distance must also be less than
        // the length of the shorter word.
        .filter(|(distance, candidate)| {
            *distance <= max_edits && *distance < length.min(candidate.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
