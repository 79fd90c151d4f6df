//! Splits SQL text into statements, ignoring every `;` that does not end a statement.
//!
//! Owns only the boundaries of statements. Statements are not parsed, and invalid SQL is split as
//! well. Unclosed quotes and routine bodies extend to the end of the text.

mod lexer;
mod params;

#[cfg(test)]
mod tests;

use std::ops::Range;

use lexer::{Lexer, TemplateMode, Token, TokenKind};
pub use params::{GivenParams, Placeholder, SqlDialect, find_param_mismatch, find_placeholders};

/// Splits SQL that still contains templates. Each `{{ … }}`, `{% … %}` and `{# … #}` is one token,
/// even inside quotes.
///
/// The ranges exclude the `;`, whitespace around a statement, and parts without a statement.
/// Comments before a statement belong to it, because they may be optimizer hints.
pub fn split_statements(text: &str) -> Vec<Range<usize>> {
    split_with_mode(text, TemplateMode::Skipped)
}

/// Splits SQL in the form sent to a database. Braces are ordinary characters, as in the array
/// `'{{1,2}}'`.
pub fn split_rendered(text: &str) -> Vec<Range<usize>> {
    split_with_mode(text, TemplateMode::Ordinary)
}

fn split_with_mode(text: &str, templates: TemplateMode) -> Vec<Range<usize>> {
    let mut statements = Vec::new();
    let mut statement = StatementBuilder::default();
    for token in Lexer::new(text, templates) {
        if token.kind == TokenKind::Semicolon && statement.is_at_top() {
            statements.extend(statement.into_statement());
            statement = StatementBuilder::default();
        } else {
            statement.add_token(&token, &text[token.range.clone()]);
        }
    }
    statements.extend(statement.into_statement());
    statements
}

/// Tokens since the end of the last statement.
#[derive(Default)]
struct StatementBuilder {
    range: Option<Range<usize>>,
    /// True if it contains anything that a database would execute.
    has_statement: bool,
    parentheses: usize,
    header: StatementHeader,
    /// `BEGIN` and `CASE` keywords of a routine without a matching `END`.
    blocks: usize,
}

/// Detects statements that create a routine with an unquoted body.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum StatementHeader {
    /// No word yet.
    #[default]
    Empty,
    /// `CREATE`, followed by this many words.
    Create(usize),
    /// `CREATE … FUNCTION`, `PROCEDURE` or `TRIGGER`.
    Routine,
    /// Any other statement.
    Other,
}

impl StatementHeader {
    /// Maximum words between `CREATE` and the kind of object, as in `CREATE OR REPLACE TEMPORARY
    /// TRIGGER`.
    const MAX_WORDS_AFTER_CREATE: usize = 3;

    fn after_word(self, word: &str) -> Self {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        match self {
            Self::Empty if is("create") => Self::Create(0),
            Self::Create(_) if is("function") || is("procedure") || is("trigger") => Self::Routine,
            Self::Create(words) if words < Self::MAX_WORDS_AFTER_CREATE => Self::Create(words + 1),
            Self::Empty | Self::Create(_) | Self::Other => Self::Other,
            Self::Routine => Self::Routine,
        }
    }
}

impl StatementBuilder {
    fn is_at_top(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }

    fn add_token(&mut self, token: &Token, text: &str) {
        self.has_statement |= match token.kind {
            TokenKind::Blank => return,
            TokenKind::Comment | TokenKind::TemplateBlock => false,
            TokenKind::Semicolon
            | TokenKind::Quoted
            | TokenKind::TemplateValue
            | TokenKind::Other => true,
            TokenKind::Word => {
                self.add_word(text);
                true
            }
            TokenKind::Open => {
                self.parentheses += 1;
                true
            }
            TokenKind::Close => {
                self.parentheses = self.parentheses.saturating_sub(1);
                true
            }
        };
        let start = self.range.as_ref().map_or(token.range.start, |range| range.start);
        self.range = Some(start..token.range.end);
    }

    fn add_word(&mut self, word: &str) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if self.header == StatementHeader::Routine {
            // Inside parentheses are arguments, which may have any name.
            if self.parentheses == 0 && (is("begin") || self.blocks > 0 && is("case")) {
                self.blocks += 1;
            } else if is("end") {
                self.blocks = self.blocks.saturating_sub(1);
            }
        }
        self.header = self.header.after_word(word);
    }

    fn into_statement(self) -> Option<Range<usize>> {
        self.range.filter(|_| self.has_statement)
    }
}
