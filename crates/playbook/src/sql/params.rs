//! Placeholders of statements, and the values that a task gives for them.

use std::ops::Range;

use super::lexer::{Lexer, TemplateMode, TokenKind};

/// Placeholders that a database knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlDialect {
    /// `$1`, and `:name`, which the tool replaces.
    Postgres,
    /// `?`, `?1`, `$1`, `:name`, `@name` and `$name`.
    Sqlite,
    /// `?`, `$1` and `$name`.
    Duckdb,
}

/// A placeholder of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Position in the text.
    pub range: Range<usize>,
    /// The name or number after the first character, or nothing.
    pub name: &'t str,
}

impl Placeholder<'_> {
    /// Returns the number of a numbered placeholder.
    pub fn number(&self) -> Option<usize> {
        self.name.parse().ok()
    }
}

/// The values of `params`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenParams<'p> {
    /// A list with this many values.
    List(usize),
    /// A map with these names.
    Names(Vec<&'p str>),
}

/// Returns the placeholders in rendered SQL, in order.
pub fn find_placeholders(text: &str, dialect: SqlDialect) -> Vec<Placeholder<'_>> {
    let tokens: Vec<_> = Lexer::new(text, TemplateMode::Ordinary).collect();
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let marker = &text[token.range.clone()];
        // `::` is a cast.
        let is_cast = text[..token.range.start].ends_with(':');
        if token.kind != TokenKind::Other || is_cast {
            continue;
        }
        let word = tokens.get(index + 1).filter(|next| next.kind == TokenKind::Word);
        let name = word.map_or("", |word| &text[word.range.clone()]);
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        let is_placeholder = match (marker, dialect) {
            ("$", SqlDialect::Postgres) => is_number,
            // `[1:2]` is a slice.
            (":", SqlDialect::Postgres | SqlDialect::Sqlite) | ("@", SqlDialect::Sqlite) => {
                !name.is_empty() && !is_number
            }
            ("$", SqlDialect::Sqlite | SqlDialect::Duckdb) => !name.is_empty(),
            ("?", SqlDialect::Sqlite | SqlDialect::Duckdb) => true,
            _ => false,
        };
        if is_placeholder {
            let name = if marker == "?" && !is_number { "" } else { name };
            let range = token.range.start..token.range.end + name.len();
            found.push(Placeholder { range, name });
        }
    }
    found
}

/// Compares the placeholders of all statements of a task with its `params`. A list gives `?` the
/// next value, from one statement to the next, and `$2` the second value in every statement.
pub fn find_param_mismatch<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    dialect: SqlDialect,
    given: &GivenParams<'_>,
) -> Option<String> {
    let (mut positional, mut highest) = (0, 0);
    for text in texts {
        for placeholder in find_placeholders(text, dialect) {
            let written = &text[placeholder.range.clone()];
            let has_value = match given {
                GivenParams::List(_) if placeholder.name.is_empty() => {
                    positional += 1;
                    true
                }
                GivenParams::List(_) => {
                    highest = highest.max(placeholder.number().unwrap_or(0));
                    placeholder.number().is_some_and(|number| number > 0)
                        // In PostgreSQL, a list leaves `:` to the operators.
                        || dialect == SqlDialect::Postgres
                }
                GivenParams::Names(names) => names.contains(&placeholder.name),
            };
            if !has_value {
                return Some(format!("the parameter '{written}' has no value in 'params'"));
            }
        }
    }
    let expected = positional.max(highest);
    match given {
        GivenParams::List(count) if *count != expected => Some(format!(
            "the statements have {expected} parameters, but 'params' has {count} values"
        )),
        GivenParams::List(_) | GivenParams::Names(_) => None,
    }
}
