//! A JSON value where it lies, looked into without being read as a whole.
//!
//! Who wants a few fields of a long text walks over the rest of it: nothing is copied, and no tree is
//! built. What is walked over is not checked beyond where it ends; what is read, is.

use std::borrow::Cow;

use super::de::parse_text;
use super::value::Json;

/// A JSON value where it lies.
#[derive(Debug, Clone, Copy)]
pub enum JsonRef<'j> {
    /// A value that was read.
    Tree(&'j Json),
    /// The text of one.
    Text(&'j str),
}

/// A text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not JSON")]
pub struct NoJson;

impl<'j> JsonRef<'j> {
    /// The value itself.
    pub fn to_json(self) -> Result<Json, NoJson> {
        match self {
            Self::Tree(value) => Ok(value.clone()),
            Self::Text(text) => parse_text(text).map_err(|_| NoJson),
        }
    }

    /// Shows every field of an object; what is none has no fields.
    pub fn fields(self, mut show: impl FnMut(&str, Self)) -> Result<(), NoJson> {
        match self {
            Self::Tree(Json::Map(map)) => {
                for (key, value) in map.iter() {
                    show(key, Self::Tree(value));
                }
                Ok(())
            }
            Self::Tree(_) => Ok(()),
            Self::Text(text) => Walk { text, at: 0 }.object(show),
        }
    }

    /// The value under a key, if this is an object that has it.
    pub fn get(self, key: &str) -> Result<Option<Self>, NoJson> {
        if let Self::Tree(value) = self {
            return Ok(value.get(key).map(Self::Tree));
        }
        let mut found = None;
        self.fields(|name, value| {
            if name == key {
                found = Some(value);
            }
        })?;
        Ok(found)
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        match self {
            Self::Tree(value) => value.is_null(),
            Self::Text(text) => text == "null",
        }
    }

    /// Whether this is an object.
    pub fn is_map(self) -> bool {
        match self {
            Self::Tree(value) => value.as_map().is_some(),
            Self::Text(text) => text.starts_with('{'),
        }
    }

    /// A name or an id, which logs hold as texts and as integers.
    pub fn word(self) -> Option<Cow<'j, str>> {
        match self {
            Self::Tree(Json::Str(text)) => (!text.is_empty()).then_some(Cow::Borrowed(&**text)),
            Self::Tree(Json::Int(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(Json::UInt(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(_) => None,
            Self::Text(text) => match plain(text) {
                Plain::Str(inner) => (!inner.is_empty()).then_some(Cow::Borrowed(inner)),
                Plain::Digits(digits) => Some(Cow::Borrowed(digits)),
                Plain::Unread => {
                    let value = parse_text(text).ok()?;
                    let word = JsonRef::Tree(&value).word()?;
                    Some(Cow::Owned(word.into_owned()))
                }
                Plain::Other => None,
            },
        }
    }

    /// A count, which logs hold as integers and as texts of digits.
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Tree(value) => value.as_i64().or_else(|| value.as_str()?.parse().ok()),
            Self::Text(text) => match plain(text) {
                Plain::Str(inner) => inner.parse().ok(),
                Plain::Digits(digits) => digits.parse().ok(),
                Plain::Unread => JsonRef::Tree(&parse_text(text).ok()?).number(),
                Plain::Other => None,
            },
        }
    }
}

/// What can be told of the text of a value without reading it.
enum Plain<'j> {
    /// A text without escapes.
    Str(&'j str),
    /// An integer whose digits are those that it is written with.
    Digits(&'j str),
    /// A text or a number that has to be read.
    Unread,
    /// Neither of both.
    Other,
}

fn plain(text: &str) -> Plain<'_> {
    let bytes = text.as_bytes();
    match bytes {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
            Plain::Str(text.get(1..text.len() - 1).unwrap_or_default())
        }
        // Numbers of nineteen digits and more may not fit.
        [b'1'..=b'9', ..] if bytes.len() < 19 && bytes.iter().all(u8::is_ascii_digit) => {
            Plain::Digits(text)
        }
        [b'"' | b'-' | b'0'..=b'9', ..] => Plain::Unread,
        _ => Plain::Other,
    }
}

/// A place in a text.
struct Walk<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> Walk<'j> {
    fn object(mut self, mut show: impl FnMut(&str, JsonRef<'j>)) -> Result<(), NoJson> {
        self.blanks();
        if self.byte() != Some(b'{') {
            return JsonRef::Text(self.text).to_json().map(drop);
        }
        self.at += 1;
        self.blanks();
        if self.byte() == Some(b'}') {
            return self.end();
        }
        loop {
            self.blanks();
            let name = self.string()?;
            self.blanks();
            self.expect(b':')?;
            self.blanks();
            let value = JsonRef::Text(self.value()?);
            match name.get(1..name.len() - 1) {
                Some(plain) if !plain.contains('\\') => show(plain, value),
                Some(_) | None => match parse_text(name) {
                    Ok(Json::Str(key)) => show(&key, value),
                    Ok(_) | Err(_) => return Err(NoJson),
                },
            }
            self.blanks();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => return self.end(),
                Some(_) | None => return Err(NoJson),
            }
        }
    }

    /// Behind the last byte of the object there is nothing.
    fn end(mut self) -> Result<(), NoJson> {
        self.at += 1;
        self.blanks();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(NoJson)
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), NoJson> {
        if self.byte() != Some(byte) {
            return Err(NoJson);
        }
        self.at += 1;
        Ok(())
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    fn since(&self, from: usize) -> Result<&'j str, NoJson> {
        self.text.get(from..self.at).ok_or(NoJson)
    }

    fn rest(&self) -> &'j [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Walks over a text with its quotes.
    fn string(&mut self) -> Result<&'j str, NoJson> {
        let from = self.at;
        self.expect(b'"')?;
        loop {
            let is_end = |byte: &u8| matches!(byte, b'"' | b'\\');
            self.at += self.rest().iter().position(is_end).ok_or(NoJson)?;
            if self.byte() == Some(b'"') {
                self.at += 1;
                return self.since(from);
            }
            self.at += 2;
        }
    }

    fn value(&mut self) -> Result<&'j str, NoJson> {
        let from = self.at;
        match self.byte() {
            Some(b'"') => return self.string(),
            Some(b'{' | b'[') => self.nested()?,
            Some(_) | None => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let rest = self.rest();
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        let value = self.since(from)?;
        if value.is_empty() {
            Err(NoJson)
        } else {
            Ok(value)
        }
    }

    /// Walks over an object or a list, however deep it is.
    fn nested(&mut self) -> Result<(), NoJson> {
        let mut depth = 0_usize;
        loop {
            let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
            self.at += self.rest().iter().position(is_mark).ok_or(NoJson)?;
            match self.byte() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(_) | None => depth -= 1,
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
