//! Where findings are collected, and the form in which they leave.

use serde::Serialize;

use super::codes::{Code, Severity};
use crate::source::{Source, Span};
use crate::yaml::{Node, path_at};

/// One finding, with its place as a person counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// What kind of finding.
    #[serde(serialize_with = "as_text")]
    pub code: Code,
    /// How much it weighs.
    #[serde(serialize_with = "as_text")]
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
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
    /// The place in the document's structure, like `workflow[2].tool.spec`.
    pub path: String,
    /// The same place in bytes, for snippets.
    #[serde(skip)]
    pub span: Span,
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(value)
}

/// A finding that is still being written.
#[derive(Debug)]
struct Finding {
    code: Code,
    span: Span,
    message: String,
    hint: Option<String>,
}

/// Findings in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Sink<'t> {
    pub(crate) source: Source<'t>,
    findings: Vec<Finding>,
    hidden: usize,
    refused: bool,
    portable: bool,
}

/// No document earns more findings than this; past it the author has read enough.
const MAX_FINDINGS: usize = 500;

impl<'t> Sink<'t> {
    pub(crate) fn new(source: Source<'t>, portable: bool) -> Self {
        Self {
            source,
            findings: Vec::new(),
            hidden: 0,
            refused: false,
            portable,
        }
    }

    /// Adds a finding.
    pub(crate) fn add(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.push(code, span, message.into(), None);
    }

    /// Adds a finding that says what to do.
    pub(crate) fn hinted(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(code, span, message.into(), Some(hint.into()));
    }

    /// Adds a finding about a name that may be a slip of the pen.
    pub(crate) fn misspelt(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        near: Option<&str>,
    ) {
        let hint = near.map(|near| format!("did you mean '{near}'?"));
        self.push(code, span, message.into(), hint);
    }

    /// Notes the use of an addition to the classic language, where that was asked for.
    pub(crate) fn addition(&mut self, span: Span, what: &str) {
        if self.portable {
            self.add(
                Code::NP020,
                span,
                format!("'{what}' is an addition and not portable"),
            );
        }
    }

    /// Whether any finding so far refuses the document.
    pub(crate) fn has_errors(&self) -> bool {
        self.refused
    }

    fn push(&mut self, code: Code, span: Span, message: String, hint: Option<String>) {
        self.refused |= code.severity() == Severity::Error;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding {
                code,
                span,
                message,
                hint,
            });
        } else {
            self.hidden += 1;
        }
    }

    /// How many findings there was no room for.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden
    }

    /// The diagnostics in document order, each once.
    pub(crate) fn finish(mut self, root: Option<&Node>) -> Vec<Diagnostic> {
        // An alias makes its anchor be read more than once; the finding is the same one.
        self.findings
            .sort_by_key(|finding| (finding.span, finding.code));
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
                    path: root
                        .map(|root| path_at(root, finding.span.start))
                        .unwrap_or_default(),
                    span: finding.span,
                }
            })
            .collect()
    }
}
