//! Splits a template into tokens. Outside `{{ }}` and `{% %}` there is text, inside there are
//! words, numbers, quoted texts and operators. Comments and raw blocks are resolved here.

use std::borrow::Cow;

use super::error::TemplateError;
use super::meter::TemplateLimits;

/// A half-open byte range of the text. Small, because every part of a program has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteSpan {
    start: u32,
    end: u32,
}

impl ByteSpan {
    /// Offsets saturate. Texts are far below 4 GiB.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end) }
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    /// The span from the start of this one to the end of the other.
    pub(super) fn extend_to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }

    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start()..self.end()
    }
}

/// A token of a template.
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
    /// An operator, a bracket or other punctuation.
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

/// Longest first, so that `**` is not read as two `*`.
const MARKS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", ".", ",", ":", "|", "=", "<",
    ">", "(", ")", "[", "]", "{", "}",
];

/// Token limit of a whole text, as a multiple of the limit of one expression.
const TEXT_TOKEN_FACTOR: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LexerMode {
    Text,
    Output,
    Block,
    /// A bare expression, without tags around it.
    Bare,
}

/// Reads tokens one at a time.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    pos: usize,
    mode: LexerMode,
    /// Number of open brackets inside the tag. A closing delimiter counts only if it is zero.
    brackets: usize,
    /// True if the last tag ended in `-`, so that the whitespace after it is dropped.
    trim: bool,
    /// True if the last token was a dot, so that a number is an index without a fraction.
    after_dot: bool,
    tokens: usize,
    all_tokens: usize,
    max_tokens: usize,
}

fn syntax_error<T>(span: ByteSpan, reason: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError::syntax(span, reason))
}

type LexResult<'t> = Result<(Token<'t>, ByteSpan), TemplateError>;

impl<'t> Lexer<'t> {
    /// Creates a lexer for a text with tags. Like Jinja, it drops one newline at the very end.
    pub(super) fn for_template(text: &'t str, limits: &TemplateLimits) -> Self {
        let body = text.strip_suffix('\n').unwrap_or(text);
        Self::new(body.strip_suffix('\r').unwrap_or(body), LexerMode::Text, limits)
    }

    /// Creates a lexer for an expression without tags.
    pub(super) fn for_expression(text: &'t str, limits: &TemplateLimits) -> Self {
        Self::new(text, LexerMode::Bare, limits)
    }

    fn new(text: &'t str, mode: LexerMode, limits: &TemplateLimits) -> Self {
        Self {
            text,
            pos: 0,
            mode,
            brackets: 0,
            trim: false,
            after_dot: false,
            tokens: 0,
            all_tokens: 0,
            max_tokens: limits.tokens,
        }
    }

    /// The next token and its location.
    pub(super) fn next(&mut self) -> LexResult<'t> {
        match self.mode {
            LexerMode::Text => self.lex_outside_tag(),
            LexerMode::Output | LexerMode::Block | LexerMode::Bare => {
                self.count_token()?;
                self.lex_inside_tag()
            }
        }
    }

    /// Enforces the token limits. The whole text is limited too, because a program takes a multiple
    /// of the memory of its text.
    fn count_token(&mut self) -> Result<(), TemplateError> {
        self.tokens += 1;
        self.all_tokens += 1;
        let max_text_tokens = self.max_tokens.saturating_mul(TEXT_TOKEN_FACTOR);
        let (unit, limit) = if self.tokens > self.max_tokens {
            ("expression", self.max_tokens)
        } else if self.all_tokens > max_text_tokens {
            ("text", max_text_tokens)
        } else {
            return Ok(());
        };
        let span = ByteSpan::new(self.pos, self.text.len());
        syntax_error(span, format!("{unit} has more than {limit} tokens"))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.pos..]
    }

    /// Advances over `len` bytes.
    fn advance_by(&mut self, len: usize) -> ByteSpan {
        let start = self.pos;
        self.pos += len;
        ByteSpan::new(start, self.pos)
    }

    // Outside of tags.

    fn lex_outside_tag(&mut self) -> LexResult<'t> {
        loop {
            if std::mem::take(&mut self.trim) {
                let blanks = self.rest().len() - self.rest().trim_start().len();
                self.advance_by(blanks);
            }
            let rest = self.rest();
            let Some(opening) = find_tag(rest) else {
                let span = self.advance_by(rest.len());
                return Ok((if rest.is_empty() { Token::End } else { Token::Text(rest) }, span));
            };
            if opening > 0 {
                let mut text = &rest[..opening];
                let start = self.advance_by(opening).start();
                if rest[opening + 2..].starts_with('-') {
                    text = text.trim_end();
                }
                if text.is_empty() {
                    continue;
                }
                return Ok((Token::Text(text), ByteSpan::new(start, start + text.len())));
            }
            if let Some(token) = self.lex_tag_open()? {
                return Ok(token);
            }
        }
    }

    /// Opens a tag. A comment or an empty raw block yields no token.
    fn lex_tag_open(&mut self) -> Result<Option<(Token<'t>, ByteSpan)>, TemplateError> {
        let rest = self.rest();
        let sign = usize::from(matches!(rest.as_bytes().get(2), Some(b'-' | b'+')));
        if rest.starts_with("{#") {
            return self.skip_comment().map(|()| None);
        }
        if rest.starts_with("{{") {
            self.enter_mode(LexerMode::Output);
            return Ok(Some((Token::OpenOutput, self.advance_by(2 + sign))));
        }
        if let Some(raw) = match_simple_tag(&rest[2 + sign..], "raw") {
            let open = self.advance_by(2 + sign + raw.len);
            return self.lex_raw_block(open, raw.trims);
        }
        self.enter_mode(LexerMode::Block);
        Ok(Some((Token::OpenBlock, self.advance_by(2 + sign))))
    }

    fn enter_mode(&mut self, mode: LexerMode) {
        self.mode = mode;
        self.brackets = 0;
        self.tokens = 0;
        self.after_dot = false;
    }

    fn skip_comment(&mut self) -> Result<(), TemplateError> {
        let rest = self.rest();
        let Some(end) = rest[2..].find("#}") else {
            return syntax_error(self.advance_by(2), "comment is not closed; expected `#}`");
        };
        self.trim = rest[2..2 + end].ends_with('-');
        self.advance_by(end + 4);
        Ok(())
    }

    fn lex_raw_block(
        &mut self,
        open: ByteSpan,
        trim_start: bool,
    ) -> Result<Option<(Token<'t>, ByteSpan)>, TemplateError> {
        let rest = self.rest();
        let mut from = 0;
        while let Some(offset) = rest[from..].find("{%") {
            let close = from + offset;
            let inner = &rest[close + 2..];
            let (trims_end, inner) = split_trim_sign(inner);
            from = close + 2;
            let Some(end) = match_simple_tag(inner, "endraw") else {
                continue;
            };
            let mut text = &rest[..close];
            if trim_start {
                text = text.trim_start();
            }
            if trims_end {
                text = text.trim_end();
            }
            let start = self.pos;
            self.advance_by(rest.len() - inner.len() + end.len);
            self.trim = end.trims;
            let span = ByteSpan::new(start, start + close);
            return Ok((!text.is_empty()).then_some((Token::Text(text), span)));
        }
        syntax_error(open, "raw block is not closed; expected `{% endraw %}`")
    }

    // Inside of a tag.

    fn lex_inside_tag(&mut self) -> LexResult<'t> {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
        self.advance_by(blanks);
        let rest = self.rest();
        let after_dot = std::mem::take(&mut self.after_dot);
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, self.advance_by(0)));
        };
        if self.brackets == 0
            && let Some(closed) = self.lex_tag_close(rest)
        {
            return Ok(closed);
        }
        match first {
            '\'' | '"' => self.lex_quoted(first),
            '0'..='9' => self.lex_number(after_dot),
            _ if is_word_start(first) => {
                let len = rest.find(|c| !is_word_part(c)).unwrap_or(rest.len());
                Ok((Token::Word(&rest[..len]), self.advance_by(len)))
            }
            _ => self.lex_mark(first),
        }
    }

    fn lex_tag_close(&mut self, rest: &str) -> Option<(Token<'t>, ByteSpan)> {
        let (mark, token) = match self.mode {
            LexerMode::Output => ("}}", Token::CloseOutput),
            LexerMode::Block => ("%}", Token::CloseBlock),
            LexerMode::Text | LexerMode::Bare => return None,
        };
        let (trim, body) = split_trim_sign(rest);
        if !body.starts_with(mark) {
            return None;
        }
        self.mode = LexerMode::Text;
        self.trim = trim;
        Some((token, self.advance_by(rest.len() - body.len() + mark.len())))
    }

    fn lex_mark(&mut self, first: char) -> LexResult<'t> {
        let rest = self.rest();
        let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) else {
            let span = self.advance_by(first.len_utf8());
            return syntax_error(span, format!("unexpected character `{first}`"));
        };
        match mark {
            "(" | "[" | "{" => self.brackets += 1,
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            "." => self.after_dot = true,
            _ => {}
        }
        Ok((Token::Mark(mark), self.advance_by(mark.len())))
    }

    fn lex_number(&mut self, after_dot: bool) -> LexResult<'t> {
        let rest = self.rest();
        if let Some(radix) = radix_from_prefix(rest).filter(|_| !after_dot) {
            let len = 2 + count_bytes_while(&rest[2..], |b| b.is_ascii_alphanumeric() || b == b'_');
            let digits = rest[2..len].replace('_', "");
            let span = self.advance_by(len);
            return match u64::from_str_radix(&digits, radix) {
                Ok(value) => Ok((Token::Int(value), span)),
                Err(_) => syntax_error(span, "number does not fit 64 bits"),
            };
        }
        let digits =
            |from: usize| count_bytes_while(&rest[from..], |b| b.is_ascii_digit() || b == b'_');
        let mut len = digits(0);
        let mut is_integer = true;
        if !after_dot {
            let bytes = rest.as_bytes();
            let digit_at = |pos: usize| bytes.get(pos).is_some_and(u8::is_ascii_digit);
            if bytes.get(len) == Some(&b'.') && digit_at(len + 1) {
                len += 1 + digits(len + 1);
                is_integer = false;
            }
            if matches!(bytes.get(len), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
                if digit_at(len + 1 + sign) {
                    len += 1 + sign + digits(len + 1 + sign);
                    is_integer = false;
                }
            }
        }
        let digits = rest[..len].replace('_', "");
        let span = self.advance_by(len);
        if is_integer {
            return match digits.parse() {
                Ok(value) => Ok((Token::Int(value), span)),
                Err(_) => syntax_error(span, "integer does not fit 64 bits"),
            };
        }
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((Token::Float(value), span)),
            Ok(_) | Err(_) => syntax_error(span, "number is out of range"),
        }
    }

    fn lex_quoted(&mut self, quote: char) -> LexResult<'t> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let is_end = !escaped && *c == quote;
            escaped = !escaped && *c == '\\';
            is_end
        });
        let Some((end, _)) = end else {
            return syntax_error(self.advance_by(rest.len()), "quoted text is not closed");
        };
        let raw = &rest[1..end];
        let span = self.advance_by(end + 1);
        let text = if raw.contains('\\') {
            match unescape_text(raw) {
                Ok(text) => Cow::Owned(text),
                Err(reason) => return syntax_error(span, reason),
            }
        } else {
            Cow::Borrowed(raw)
        };
        if text.contains('\0') {
            return syntax_error(span, "text contains a NUL character");
        }
        Ok((Token::Quoted(text), span))
    }
}

/// The offset of the next tag.
fn find_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(offset) = bytes[from..].iter().position(|byte| *byte == b'{') {
        let pos = from + offset;
        if matches!(bytes.get(pos + 1), Some(b'{' | b'%' | b'#')) {
            return Some(pos);
        }
        from = pos + 1;
    }
    None
}

/// The rest of a tag that consists of a single word.
struct SimpleTag {
    len: usize,
    trims: bool,
}

fn match_simple_tag(inner: &str, keyword: &str) -> Option<SimpleTag> {
    let rest = inner.trim_ascii_start().strip_prefix(keyword)?.trim_ascii_start();
    let (trims, rest) = split_trim_sign(rest);
    let rest = rest.strip_prefix("%}")?;
    Some(SimpleTag { len: inner.len() - rest.len(), trims })
}

/// Splits off the sign of a delimiter. A `-` trims the whitespace next to it.
fn split_trim_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn radix_from_prefix(text: &str) -> Option<u32> {
    match text.as_bytes().get(..2)? {
        b"0x" | b"0X" => Some(16),
        b"0o" | b"0O" => Some(8),
        b"0b" | b"0B" => Some(2),
        _ => None,
    }
}

fn count_bytes_while(text: &str, matches: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| matches(*byte)).count()
}

/// Resolves the escapes of a quoted text. An unknown escape stays as it is, so that patterns like
/// `\d` need no doubling.
fn unescape_text(raw: &str) -> Result<String, &'static str> {
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
            Some('x') => {
                text.push(char::from_u32(parse_hex_digits(&mut chars, 2)?).ok_or(BAD_ESCAPE)?);
            }
            Some('u') => text.push(parse_utf16_escape(&mut chars)?),
            Some(quoted @ ('\\' | '\'' | '"' | '/')) => text.push(quoted),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    Ok(text)
}

const BAD_ESCAPE: &str = "invalid escape sequence";

fn parse_hex_digits(chars: &mut std::str::Chars<'_>, digits: usize) -> Result<u32, &'static str> {
    let mut value = 0;
    for _ in 0..digits {
        let digit = chars.next().and_then(|c| c.to_digit(16)).ok_or(BAD_ESCAPE)?;
        value = value * 16 + digit;
    }
    Ok(value)
}

/// Parses one character of the form `\uXXXX`, or a surrogate pair of them.
fn parse_utf16_escape(chars: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    let high = parse_hex_digits(chars, 4)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high).ok_or(BAD_ESCAPE);
    }
    if !chars.as_str().starts_with("\\u") {
        return Err(BAD_ESCAPE);
    }
    chars.nth(1);
    let low = parse_hex_digits(chars, 4)?;
    if !(0xDC00..0xE000).contains(&low) {
        return Err(BAD_ESCAPE);
    }
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).ok_or(BAD_ESCAPE)
}
