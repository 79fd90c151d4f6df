//! The pieces of SQL text that must not be torn apart.

use std::ops::Range;

/// Whether templates are still in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Templates {
    /// They are, and whatever is in them is none of SQL's business.
    Skipped,
    /// They are not; braces are braces.
    Ordinary,
}

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// White space.
    Blank,
    /// `-- …` or `/* … */`.
    Comment,
    /// A statement or a comment of the template language, which prints nothing of its own.
    Silent,
    /// A template that prints a value.
    Value,
    /// A text or a name in quotes of any sort.
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

/// Goes through the text once, from piece to piece.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Where templates stand, in order.
    templates: Vec<Range<usize>>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, templates: Templates) -> Self {
        let templates = match templates {
            Templates::Skipped => templates_in(text),
            Templates::Ordinary => Vec::new(),
        };
        Self {
            text,
            at: 0,
            templates,
        }
    }

    fn rest(&self, at: usize) -> &'t str {
        &self.text[at..]
    }

    /// The piece that starts here, and where it ends.
    fn read(&self, first: char) -> (Kind, usize) {
        let here = self.at;
        let rest = self.rest(here);
        let after = here + first.len_utf8();
        if let Some(end) = self.template_end(here) {
            let kind = if rest.starts_with("{{") {
                Kind::Value
            } else {
                Kind::Silent
            };
            return (kind, end);
        }
        if rest.starts_with("--") {
            return (
                Kind::Comment,
                self.until(here, |rest| rest.starts_with('\n').then_some(0)),
            );
        }
        if rest.starts_with("/*") {
            return (Kind::Comment, self.block_comment(here));
        }
        match first {
            '(' => (Kind::Open, after),
            ')' => (Kind::Close, after),
            ';' => (Kind::Semicolon, after),
            '\'' | '"' => (Kind::Quoted, self.quoted(after, first)),
            'e' | 'E' if rest[1..].starts_with('\'') => (Kind::Quoted, self.escaped(after + 1)),
            '$' => match dollar_tag(rest) {
                Some(tag) => (Kind::Quoted, self.dollar_quoted(here + tag.len(), tag)),
                None => (Kind::Other, after),
            },
            _ if first.is_whitespace() => (Kind::Blank, self.run(here, char::is_whitespace)),
            _ if is_word(first) => (Kind::Word, self.run(here, |c| is_word(c) || c == '$')),
            _ => (Kind::Other, after),
        }
    }

    /// The end of a run of characters.
    fn run(&self, from: usize, belongs: impl Fn(char) -> bool) -> usize {
        self.rest(from)
            .find(|c| !belongs(c))
            .map_or(self.text.len(), |length| from + length)
    }

    /// The first place at which `ends` gives a length, with that length behind it; templates on the
    /// way are stepped over.
    fn until(&self, from: usize, mut ends: impl FnMut(&str) -> Option<usize>) -> usize {
        let mut at = from;
        while let Some(next) = self.rest(at).chars().next() {
            if let Some(length) = ends(self.rest(at)) {
                return at + length;
            }
            at = self.template_end(at).unwrap_or(at + next.len_utf8());
        }
        at
    }

    /// A quote is written as two inside of its own kind.
    fn quoted(&self, from: usize, quote: char) -> usize {
        let mut at = from;
        loop {
            at = self.until(at, |rest| rest.starts_with(quote).then_some(1));
            if !self.rest(at).starts_with(quote) {
                return at;
            }
            at += 1;
        }
    }

    /// `E'…'`, in which a backslash takes the next character with it.
    fn escaped(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            at = self.until(at, |rest| rest.starts_with(['\'', '\\']).then_some(0));
            let rest = self.rest(at);
            let step = match rest.as_bytes() {
                [] => return at,
                [b'\'', b'\'', ..] => 2,
                [b'\'', ..] => return at + 1,
                _ => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            };
            at += step;
        }
    }

    fn dollar_quoted(&self, from: usize, tag: &str) -> usize {
        self.until(from, |rest| rest.starts_with(tag).then_some(tag.len()))
    }

    /// Block comments nest.
    fn block_comment(&self, from: usize) -> usize {
        let mut depth = 0_usize;
        let mut at = from;
        loop {
            at = self.until(at, |rest| {
                (rest.starts_with("/*") || rest.starts_with("*/")).then_some(0)
            });
            let rest = self.rest(at);
            if rest.is_empty() {
                return at;
            }
            depth = if rest.starts_with("/*") {
                depth + 1
            } else {
                depth - 1
            };
            at += 2;
            if depth == 0 {
                return at;
            }
        }
    }

    /// The end of the template that starts here, if one does.
    fn template_end(&self, at: usize) -> Option<usize> {
        let found = self
            .templates
            .binary_search_by_key(&at, |template| template.start)
            .ok()?;
        Some(self.templates[found].end)
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let first = self.rest(self.at).chars().next()?;
        let (kind, end) = self.read(first);
        let range = self.at..end;
        self.at = end;
        Some(Token { kind, range })
    }
}

/// All templates of a text. One that is never closed is no template, nor is anything behind it.
fn templates_in(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        let inside = &text[start + 1..];
        let length = match inside.as_bytes().first() {
            Some(b'{') => expression_length(&inside[1..], "}}"),
            Some(b'%') => expression_length(&inside[1..], "%}"),
            Some(b'#') => inside[1..].find("#}").map(|length| length + 2),
            Some(_) | None => {
                at = start + 1;
                continue;
            }
        };
        let Some(length) = length else { break };
        at = start + 2 + length;
        found.push(start..at);
    }
    found
}

/// The length up to and with `close`; a text inside of a template may hold what looks like its end.
fn expression_length(text: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            None if text[at..].starts_with(close) => return Some(at + close.len()),
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

/// `$$` or `$tag$` at the start of a text; `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let length = name
        .find(|c| !is_word(c))
        .filter(|end| name[*end..].starts_with('$'))?;
    let is_tag = !name.starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &text[..length + 2])
}
