//! From text to tokens: what stands outside of `{{ }}` and `{% %}` is text, what stands inside is
//! words, numbers, quoted texts and marks. Comments and raw blocks end here.

use std::borrow::Cow;

use super::fault::{Fault, FaultKind};
use super::limits::TemplateLimits;

/// A half-open range of bytes of the text; small, since every part of a program has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Texts are far below 4 GiB.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: clamp(start),
            end: clamp(end),
        }
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    /// From the start of this one to the end of the other.
    pub(super) fn to(self, other: Self) -> Self {
        Self {
            start: self.start,
            end: other.end.max(self.end),
        }
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start()..self.end()
    }
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    /// Text outside of tags.
    Text(&'t str),
    /// `{{`
    OpenOutput,
    /// `}}`
    CloseOutput,
    /// `{%`
    OpenBlock,
    /// `%}`
    CloseBlock,
    Word(&'t str),
    Quoted(Cow<'t, str>),
    Int(u64),
    Float(f64),
    /// An operator, a bracket or another mark.
    Mark(&'static str),
    End,
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("text"),
            Self::OpenOutput => f.write_str("`{{`"),
            Self::CloseOutput => f.write_str("`}}`"),
            Self::OpenBlock => f.write_str("`{%`"),
            Self::CloseBlock => f.write_str("`%}`"),
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Quoted(_) => f.write_str("a quoted text"),
            Self::Int(_) | Self::Float(_) => f.write_str("a number"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// Longest first, so that `**` is not two times `*`.
const MARKS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", ".", ",", ":", "|", "=", "<",
    ">", "(", ")", "[", "]", "{", "}",
];

/// How many times the tokens of one expression a whole text may have.
const TOKENS_OF_TEXT: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Text,
    Output,
    Block,
    /// A bare expression: there are no tags around it.
    Bare,
}

/// Reads one token after the other.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    mode: Mode,
    /// Open brackets inside of the tag; a closing mark counts only where there are none.
    brackets: usize,
    /// The last tag ended in `-`, so blanks that follow are dropped.
    trim: bool,
    /// The last token was a dot, so a number is an index and has no fraction.
    after_dot: bool,
    tokens: usize,
    all_tokens: usize,
    max_tokens: usize,
}

type Lexed<'t> = Result<(Token<'t>, Span), Fault>;

impl<'t> Lexer<'t> {
    /// Reads a text with tags; like Jinja, it drops one newline at the very end.
    pub(super) fn template(text: &'t str, limits: &TemplateLimits) -> Self {
        let body = text.strip_suffix('\n').unwrap_or(text);
        Self::new(body.strip_suffix('\r').unwrap_or(body), Mode::Text, limits)
    }

    /// Reads an expression without tags.
    pub(super) fn bare(text: &'t str, limits: &TemplateLimits) -> Self {
        Self::new(text, Mode::Bare, limits)
    }

    fn new(text: &'t str, mode: Mode, limits: &TemplateLimits) -> Self {
        Self {
            text,
            at: 0,
            mode,
            brackets: 0,
            trim: false,
            after_dot: false,
            tokens: 0,
            all_tokens: 0,
            max_tokens: limits.tokens,
        }
    }

    /// The next token and where it stands.
    pub(super) fn next(&mut self) -> Lexed<'t> {
        match self.mode {
            Mode::Text => self.outside(),
            Mode::Output | Mode::Block | Mode::Bare => {
                self.count()?;
                self.inside()
            }
        }
    }

    /// A text of many expressions is bounded as well: a program takes many times its text.
    fn count(&mut self) -> Result<(), Fault> {
        self.tokens += 1;
        self.all_tokens += 1;
        let all = self.max_tokens.saturating_mul(TOKENS_OF_TEXT);
        let (what, most) = if self.tokens > self.max_tokens {
            ("expression", self.max_tokens)
        } else if self.all_tokens > all {
            ("text", all)
        } else {
            return Ok(());
        };
        let span = Span::new(self.at, self.text.len());
        Self::fault(span, format!("{what} has more than {most} tokens"))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Steps over `len` bytes.
    fn take(&mut self, len: usize) -> Span {
        let start = self.at;
        self.at += len;
        Span::new(start, self.at)
    }

    fn fault<T>(span: Span, reason: impl Into<String>) -> Result<T, Fault> {
        let kind = FaultKind::Syntax {
            reason: reason.into(),
        };
        Err(Fault {
            kind,
            range: span.range(),
        })
    }

    // Outside of tags.

    fn outside(&mut self) -> Lexed<'t> {
        loop {
            if std::mem::take(&mut self.trim) {
                let blanks = self.rest().len() - self.rest().trim_start().len();
                self.take(blanks);
            }
            let rest = self.rest();
            let Some(opening) = find_tag(rest) else {
                let span = self.take(rest.len());
                return Ok((
                    if rest.is_empty() {
                        Token::End
                    } else {
                        Token::Text(rest)
                    },
                    span,
                ));
            };
            if opening > 0 {
                let text = &rest[..opening];
                let span = self.take(opening);
                let kept = if rest[opening + 2..].starts_with('-') {
                    text.trim_end()
                } else {
                    text
                };
                if kept.is_empty() {
                    continue;
                }
                return Ok((
                    Token::Text(kept),
                    Span::new(span.start(), span.start() + kept.len()),
                ));
            }
            if let Some(token) = self.tag()? {
                return Ok(token);
            }
        }
    }

    /// Opens a tag; a comment or an empty raw block yields nothing.
    fn tag(&mut self) -> Result<Option<(Token<'t>, Span)>, Fault> {
        let rest = self.rest();
        let sign = usize::from(matches!(rest.as_bytes().get(2), Some(b'-' | b'+')));
        if rest.starts_with("{#") {
            return self.comment().map(|()| None);
        }
        if rest.starts_with("{{") {
            self.enter(Mode::Output);
            return Ok(Some((Token::OpenOutput, self.take(2 + sign))));
        }
        if let Some(raw) = simple_tag(&rest[2 + sign..], "raw") {
            let open = self.take(2 + sign + raw.len);
            return self.raw(open, raw.trims);
        }
        self.enter(Mode::Block);
        Ok(Some((Token::OpenBlock, self.take(2 + sign))))
    }

    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.brackets = 0;
        self.tokens = 0;
        self.after_dot = false;
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let Some(end) = rest[2..].find("#}") else {
            return Self::fault(self.take(2), "comment is not closed; expected `#}`");
        };
        self.trim = rest[2..2 + end].ends_with('-');
        self.take(end + 4);
        Ok(())
    }

    fn raw(&mut self, open: Span, trim_start: bool) -> Result<Option<(Token<'t>, Span)>, Fault> {
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find("{%") {
            let close = from + found;
            let inner = &rest[close + 2..];
            let (trims_end, inner) = match inner.as_bytes().first() {
                Some(b'-') => (true, &inner[1..]),
                Some(b'+') => (false, &inner[1..]),
                Some(_) | None => (false, inner),
            };
            from = close + 2;
            let Some(end) = simple_tag(inner, "endraw") else {
                continue;
            };
            let mut text = &rest[..close];
            if trim_start {
                text = text.trim_start();
            }
            if trims_end {
                text = text.trim_end();
            }
            let start = self.at;
            self.take(rest.len() - inner.len() + end.len);
            self.trim = end.trims;
            let span = Span::new(start, start + close);
            return Ok((!text.is_empty()).then_some((Token::Text(text), span)));
        }
        Self::fault(open, "raw block is not closed; expected `{% endraw %}`")
    }

    // Inside of a tag.

    fn inside(&mut self) -> Lexed<'t> {
        let rest = self.rest();
        let blanks = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_whitespace())
                .len();
        self.take(blanks);
        let rest = self.rest();
        let after_dot = std::mem::take(&mut self.after_dot);
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, self.take(0)));
        };
        if self.brackets == 0
            && let Some(closed) = self.close(rest)
        {
            return Ok(closed);
        }
        match first {
            '\'' | '"' => self.quoted(first),
            '0'..='9' => self.number(after_dot),
            _ if is_word_start(first) => {
                let len = rest.find(|c| !is_word_part(c)).unwrap_or(rest.len());
                Ok((Token::Word(&rest[..len]), self.take(len)))
            }
            _ => self.mark(first),
        }
    }

    fn close(&mut self, rest: &str) -> Option<(Token<'t>, Span)> {
        let (mark, token) = match self.mode {
            Mode::Output => ("}}", Token::CloseOutput),
            Mode::Block => ("%}", Token::CloseBlock),
            Mode::Text | Mode::Bare => return None,
        };
        let (sign, body) = match rest.as_bytes()[0] {
            sign @ (b'-' | b'+') => (Some(sign), &rest[1..]),
            _ => (None, rest),
        };
        if !body.starts_with(mark) {
            return None;
        }
        self.mode = Mode::Text;
        self.trim = sign == Some(b'-');
        Some((token, self.take(rest.len() - body.len() + mark.len())))
    }

    fn mark(&mut self, first: char) -> Lexed<'t> {
        let rest = self.rest();
        let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) else {
            let span = self.take(first.len_utf8());
            return Self::fault(span, format!("unexpected character `{first}`"));
        };
        match mark {
            "(" | "[" | "{" => self.brackets += 1,
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            "." => self.after_dot = true,
            _ => {}
        }
        Ok((Token::Mark(mark), self.take(mark.len())))
    }

    fn number(&mut self, after_dot: bool) -> Lexed<'t> {
        let rest = self.rest();
        if let Some(radix) = radix_of(rest).filter(|_| !after_dot) {
            let len = 2 + count(&rest[2..], |b| b.is_ascii_alphanumeric() || b == b'_');
            let digits = rest[2..len].replace('_', "");
            let span = self.take(len);
            return match u64::from_str_radix(&digits, radix) {
                Ok(value) => Ok((Token::Int(value), span)),
                Err(_) => Self::fault(span, "not a number of 64 bits"),
            };
        }
        let digits = |from: usize| count(&rest[from..], |b| b.is_ascii_digit() || b == b'_');
        let mut len = digits(0);
        let mut integer = true;
        if !after_dot {
            let bytes = rest.as_bytes();
            let digit_at = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
            if bytes.get(len) == Some(&b'.') && digit_at(len + 1) {
                len += 1 + digits(len + 1);
                integer = false;
            }
            if matches!(bytes.get(len), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
                if digit_at(len + 1 + sign) {
                    len += 1 + sign + digits(len + 1 + sign);
                    integer = false;
                }
            }
        }
        let digits = rest[..len].replace('_', "");
        let span = self.take(len);
        if integer {
            return match digits.parse() {
                Ok(value) => Ok((Token::Int(value), span)),
                Err(_) => Self::fault(span, "integer does not fit 64 bits"),
            };
        }
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((Token::Float(value), span)),
            Ok(_) | Err(_) => Self::fault(span, "number is out of range"),
        }
    }

    fn quoted(&mut self, quote: char) -> Lexed<'t> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let ends = !escaped && *c == quote;
            escaped = !escaped && *c == '\\';
            ends
        });
        let Some((end, _)) = end else {
            return Self::fault(self.take(rest.len()), "quoted text is not closed");
        };
        let raw = &rest[1..end];
        let span = self.take(end + 1);
        let text = if raw.contains('\\') {
            match unescape(raw) {
                Ok(text) => Cow::Owned(text),
                Err(reason) => return Self::fault(span, reason),
            }
        } else {
            Cow::Borrowed(raw)
        };
        if text.contains('\0') {
            return Self::fault(span, "text contains a NUL character");
        }
        Ok((Token::Quoted(text), span))
    }
}

/// Where the next tag opens.
fn find_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = bytes[from..].iter().position(|byte| *byte == b'{') {
        let at = from + found;
        if matches!(bytes.get(at + 1), Some(b'{' | b'%' | b'#')) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// The rest of a tag that holds one word only.
struct SimpleTag {
    len: usize,
    trims: bool,
}

fn simple_tag(inner: &str, word: &str) -> Option<SimpleTag> {
    let rest = inner
        .trim_ascii_start()
        .strip_prefix(word)?
        .trim_ascii_start();
    let (trims, rest) = match rest.as_bytes().first() {
        Some(b'-') => (true, &rest[1..]),
        Some(b'+') => (false, &rest[1..]),
        Some(_) | None => (false, rest),
    };
    let rest = rest.strip_prefix("%}")?;
    Some(SimpleTag {
        len: inner.len() - rest.len(),
        trims,
    })
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn radix_of(text: &str) -> Option<u32> {
    match text.as_bytes().get(..2)? {
        b"0x" | b"0X" => Some(16),
        b"0o" | b"0O" => Some(8),
        b"0b" | b"0B" => Some(2),
        _ => None,
    }
}

fn count(text: &str, keep: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| keep(*byte)).count()
}

/// Resolves the escapes of a quoted text; an escape that means nothing stays as it is, so that
/// patterns like `\d` need no doubling.
fn unescape(raw: &str) -> Result<String, &'static str> {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('x') => text.push(char::from_u32(hex(&mut chars, 2)?).ok_or(BAD_ESCAPE)?),
            Some('u') => text.push(utf16(&mut chars)?),
            Some(quoted @ ('\\' | '\'' | '"' | '/')) => text.push(quoted),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    Ok(text)
}

const BAD_ESCAPE: &str = "escape is not a character";

fn hex(chars: &mut std::str::Chars<'_>, digits: usize) -> Result<u32, &'static str> {
    let mut value = 0;
    for _ in 0..digits {
        let digit = chars
            .next()
            .and_then(|c| c.to_digit(16))
            .ok_or(BAD_ESCAPE)?;
        value = value * 16 + digit;
    }
    Ok(value)
}

/// One character in the form `\uXXXX`, or a pair of them that makes up one beyond 16 bits.
fn utf16(chars: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    let high = hex(chars, 4)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high).ok_or(BAD_ESCAPE);
    }
    if !chars.as_str().starts_with("\\u") {
        return Err(BAD_ESCAPE);
    }
    chars.nth(1);
    let low = hex(chars, 4)?;
    if !(0xDC00..0xE000).contains(&low) {
        return Err(BAD_ESCAPE);
    }
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).ok_or(BAD_ESCAPE)
}
