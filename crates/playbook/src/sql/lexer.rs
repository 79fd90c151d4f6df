//! Splits SQL text into indivisible tokens.

use std::ops::Range;

/// Treatment of templates in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplateMode {
    /// Templates are skipped as single tokens.
    Skipped,
    /// The text is rendered. Braces are ordinary characters.
    Ordinary,
}

/// A token of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) range: Range<usize>,
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Whitespace.
    Blank,
    /// `-- …` or `/* … */`.
    Comment,
    /// A statement or comment of the template language, which renders to nothing itself.
    TemplateBlock,
    /// A template that renders a value.
    TemplateValue,
    /// A quoted string or identifier.
    Quoted,
    /// A keyword, a name or a number.
    Word,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `;`
    Semicolon,
    /// Any other character.
    Other,
}

/// Iterates over the tokens of a text.
pub(super) struct Lexer<'t> {
    text: &'t str,
    pos: usize,
    /// Positions of templates, in order.
    templates: Vec<Range<usize>>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, templates: TemplateMode) -> Self {
        let templates = match templates {
            TemplateMode::Skipped => find_templates(text),
            TemplateMode::Ordinary => Vec::new(),
        };
        Self { text, pos: 0, templates }
    }

    fn rest_from(&self, pos: usize) -> &'t str {
        &self.text[pos..]
    }

    /// Returns the kind and end of the token at the current position.
    fn read_token(&self, first: char) -> (TokenKind, usize) {
        let start = self.pos;
        let rest = self.rest_from(start);
        let after = start + first.len_utf8();
        if let Some(end) = self.template_end(start) {
            let kind = if rest.starts_with("{{") {
                TokenKind::TemplateValue
            } else {
                TokenKind::TemplateBlock
            };
            return (kind, end);
        }
        if rest.starts_with("--") {
            return (
                TokenKind::Comment,
                self.find_end(start, |rest| rest.starts_with('\n').then_some(0)),
            );
        }
        if rest.starts_with("/*") {
            return (TokenKind::Comment, self.end_of_block_comment(start));
        }
        match first {
            '(' => (TokenKind::Open, after),
            ')' => (TokenKind::Close, after),
            ';' => (TokenKind::Semicolon, after),
            '\'' | '"' => (TokenKind::Quoted, self.end_of_quoted(after, first)),
            'e' | 'E' if rest[1..].starts_with('\'') => {
                (TokenKind::Quoted, self.end_of_escaped(after + 1))
            }
            '$' => match dollar_tag(rest) {
                Some(tag) => (TokenKind::Quoted, self.end_of_dollar_quoted(start + tag.len(), tag)),
                None => (TokenKind::Other, after),
            },
            _ if first.is_whitespace() => {
                (TokenKind::Blank, self.end_of_run(start, char::is_whitespace))
            }
            _ if is_word(first) => {
                (TokenKind::Word, self.end_of_run(start, |c| is_word(c) || c == '$'))
            }
            _ => (TokenKind::Other, after),
        }
    }

    /// Returns the end of a sequence of characters that belong together.
    fn end_of_run(&self, from: usize, belongs: impl Fn(char) -> bool) -> usize {
        self.rest_from(from).find(|c| !belongs(c)).map_or(self.text.len(), |length| from + length)
    }

    /// Returns the end of the first match of `ends`, which returns the length of a match. Templates
    /// are skipped.
    fn find_end(&self, from: usize, mut ends: impl FnMut(&str) -> Option<usize>) -> usize {
        let mut pos = from;
        while let Some(next) = self.rest_from(pos).chars().next() {
            if let Some(length) = ends(self.rest_from(pos)) {
                return pos + length;
            }
            pos = self.template_end(pos).unwrap_or(pos + next.len_utf8());
        }
        pos
    }

    /// Returns the end of a quoted token. A doubled quote is an escaped quote.
    fn end_of_quoted(&self, from: usize, quote: char) -> usize {
        let mut pos = from;
        loop {
            pos = self.find_end(pos, |rest| rest.starts_with(quote).then_some(1));
            if !self.rest_from(pos).starts_with(quote) {
                return pos;
            }
            pos += 1;
        }
    }

    /// Returns the end of `E'…'`, in which a backslash escapes the next character.
    fn end_of_escaped(&self, from: usize) -> usize {
        let mut pos = from;
        loop {
            pos = self.find_end(pos, |rest| rest.starts_with(['\'', '\\']).then_some(0));
            let rest = self.rest_from(pos);
            let step = match rest.as_bytes() {
                [] => return pos,
                [b'\'', b'\'', ..] => 2,
                [b'\'', ..] => return pos + 1,
                _ => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            };
            pos += step;
        }
    }

    fn end_of_dollar_quoted(&self, from: usize, tag: &str) -> usize {
        self.find_end(from, |rest| rest.starts_with(tag).then_some(tag.len()))
    }

    /// Returns the end of a block comment. Block comments nest.
    fn end_of_block_comment(&self, from: usize) -> usize {
        let mut depth = 0_usize;
        let mut pos = from;
        loop {
            pos = self.find_end(pos, |rest| {
                (rest.starts_with("/*") || rest.starts_with("*/")).then_some(0)
            });
            let rest = self.rest_from(pos);
            if rest.is_empty() {
                return pos;
            }
            depth = if rest.starts_with("/*") { depth + 1 } else { depth - 1 };
            pos += 2;
            if depth == 0 {
                return pos;
            }
        }
    }

    /// Returns the end of the template at this position, if there is one.
    fn template_end(&self, pos: usize) -> Option<usize> {
        let index = self.templates.binary_search_by_key(&pos, |template| template.start).ok()?;
        Some(self.templates[index].end)
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let first = self.rest_from(self.pos).chars().next()?;
        let (kind, end) = self.read_token(first);
        let range = self.pos..end;
        self.pos = end;
        Some(Token { kind, range })
    }
}

/// Returns the positions of all templates. Stops at the first unclosed template.
fn find_templates(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut pos = 0;
    while let Some(start) = text[pos..].find('{').map(|offset| pos + offset) {
        let inside = &text[start + 1..];
        let length = match inside.as_bytes().first() {
            Some(b'{') => expression_length(&inside[1..], "}}"),
            Some(b'%') => expression_length(&inside[1..], "%}"),
            Some(b'#') => inside[1..].find("#}").map(|length| length + 2),
            Some(_) | None => {
                pos = start + 1;
                continue;
            }
        };
        let Some(length) = length else { break };
        pos = start + 2 + length;
        found.push(start..pos);
    }
    found
}

/// Returns the length up to and including `close`. A string inside a template may contain `close`.
fn expression_length(text: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (pos, c) in text.char_indices() {
        match quote {
            None if text[pos..].starts_with(close) => return Some(pos + close.len()),
            None => quote = matches!(c, '\'' | '"').then_some(c),
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Matches `$$` or `$tag$` at the start of a text. `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let length = name.find(|c| !is_word(c)).filter(|end| name[*end..].starts_with('$'))?;
    let is_tag = !name.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &text[..length + 2])
}
