//! SQL text cut into statements, with an eye on everything in which a `;` ends nothing.
//!
//! Owns where statements begin and end, and nothing else of SQL: no statement is understood, and a
//! text that no database would take is still cut somewhere. Quotes and bodies that are never closed
//! reach to the end of the text.

mod lexer;

#[cfg(test)]
mod tests;

use std::ops::Range;

use lexer::{Kind, Lexer, Templates, Token};

/// Cuts SQL that is still a template: `{{ … }}`, `{% … %}` and `{# … #}` count as one piece each,
/// also inside of quotes.
///
/// The ranges leave out the `;`, the blanks around a statement, and pieces without a statement.
/// Comments before a statement belong to it, since a hint to the optimiser is one.
pub fn split_statements(text: &str) -> Vec<Range<usize>> {
    split(text, Templates::Skipped)
}

/// Cuts SQL as a database gets it: braces are ordinary characters, as in the array `'{{1,2}}'`.
pub fn split_rendered(text: &str) -> Vec<Range<usize>> {
    split(text, Templates::Ordinary)
}

fn split(text: &str, templates: Templates) -> Vec<Range<usize>> {
    let mut statements = Vec::new();
    let mut piece = Piece::default();
    for token in Lexer::new(text, templates) {
        if token.kind == Kind::Semicolon && piece.is_at_top() {
            statements.extend(piece.statement());
            piece = Piece::default();
        } else {
            piece.add(&token, &text[token.range.clone()]);
        }
    }
    statements.extend(piece.statement());
    statements
}

/// What has been read since the last `;` that ended something.
#[derive(Default)]
struct Piece {
    range: Option<Range<usize>>,
    /// Whether anything is in it that a database would run.
    has_statement: bool,
    parentheses: usize,
    header: Header,
    /// `BEGIN` and `CASE` in a routine that wait for their `END`.
    blocks: usize,
}

/// Whether the statement creates a routine whose body is written without quotes.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// No word so far.
    #[default]
    Empty,
    /// `CREATE`, and so many words after it.
    Create(usize),
    /// `CREATE … FUNCTION`, `PROCEDURE` or `TRIGGER`.
    Routine,
    /// Anything else.
    Other,
}

impl Header {
    /// `CREATE OR REPLACE TEMPORARY TRIGGER`: what is created is named among the first words.
    const LONGEST: usize = 3;

    fn after(self, word: &str) -> Self {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        match self {
            Self::Empty if is("create") => Self::Create(0),
            Self::Create(_) if is("function") || is("procedure") || is("trigger") => Self::Routine,
            Self::Create(words) if words < Self::LONGEST => Self::Create(words + 1),
            Self::Empty | Self::Create(_) | Self::Other => Self::Other,
            Self::Routine => Self::Routine,
        }
    }
}

impl Piece {
    fn is_at_top(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }

    fn add(&mut self, token: &Token, text: &str) {
        self.has_statement |= match token.kind {
            Kind::Blank => return,
            Kind::Comment | Kind::Silent => false,
            Kind::Semicolon | Kind::Quoted | Kind::Value | Kind::Other => true,
            Kind::Word => {
                self.word(text);
                true
            }
            Kind::Open => {
                self.parentheses += 1;
                true
            }
            Kind::Close => {
                self.parentheses = self.parentheses.saturating_sub(1);
                true
            }
        };
        let start = self
            .range
            .as_ref()
            .map_or(token.range.start, |range| range.start);
        self.range = Some(start..token.range.end);
    }

    fn word(&mut self, word: &str) {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if self.header == Header::Routine {
            // Between parentheses stand arguments, which may bear any name.
            if self.parentheses == 0 && (is("begin") || self.blocks > 0 && is("case")) {
                self.blocks += 1;
            } else if is("end") {
                self.blocks = self.blocks.saturating_sub(1);
            }
        }
        self.header = self.header.after(word);
    }

    fn statement(self) -> Option<Range<usize>> {
        self.range.filter(|_| self.has_statement)
    }
}
