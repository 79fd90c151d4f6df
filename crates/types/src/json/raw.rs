//! Access to fields of a JSON value without parsing all of it.
//!
//! A caller that needs a few fields of a long text skips the rest: nothing is copied, and no tree
//! is built. Skipped parts are checked only as far as needed to find their end. Parts that are read
//! are fully checked.

use std::borrow::Cow;

use super::de::parse_str;
use super::value::Json;

/// Reference to a JSON value, parsed or as text.
#[derive(Debug, Clone, Copy)]
pub enum JsonRef<'j> {
    /// A parsed value.
    Tree(&'j Json),
    /// The text of a value.
    Text(&'j str),
}

/// Error for a text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not JSON")]
pub struct InvalidJson;

impl<'j> JsonRef<'j> {
    /// Returns the parsed value.
    pub fn to_json(self) -> Result<Json, InvalidJson> {
        match self {
            Self::Tree(value) => Ok(value.clone()),
            Self::Text(text) => parse_str(text).map_err(|_| InvalidJson),
        }
    }

    /// Calls a function for every field of an object. Other values have no fields.
    pub fn for_each_field(self, mut visit: impl FnMut(&str, Self)) -> Result<(), InvalidJson> {
        match self {
            Self::Tree(Json::Map(map)) => {
                for (key, value) in map.iter() {
                    visit(key, Self::Tree(value));
                }
                Ok(())
            }
            Self::Tree(_) => Ok(()),
            Self::Text(text) => JsonScanner { text, at: 0 }.scan_object(visit),
        }
    }

    /// Returns the value of a key if this is an object that has it.
    pub fn get(self, key: &str) -> Result<Option<Self>, InvalidJson> {
        if let Self::Tree(value) = self {
            return Ok(value.get(key).map(Self::Tree));
        }
        let mut found = None;
        self.for_each_field(|name, value| {
            if name == key {
                found = Some(value);
            }
        })?;
        Ok(found)
    }

    /// True if this is `null`.
    pub fn is_null(self) -> bool {
        match self {
            Self::Tree(value) => value.is_null(),
            Self::Text(text) => text == "null",
        }
    }

    /// True if this is an object.
    pub fn is_map(self) -> bool {
        match self {
            Self::Tree(value) => value.as_map().is_some(),
            Self::Text(text) => text.starts_with('{'),
        }
    }

    /// Returns a name or an id, which logs store as strings or integers.
    pub fn as_name_or_id(self) -> Option<Cow<'j, str>> {
        match self {
            Self::Tree(Json::Str(text)) => (!text.is_empty()).then_some(Cow::Borrowed(&**text)),
            Self::Tree(Json::Int(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(Json::UInt(number)) => Some(Cow::Owned(number.to_string())),
            Self::Tree(_) => None,
            Self::Text(text) => match classify_scalar(text) {
                ScalarText::Str(inner) => (!inner.is_empty()).then_some(Cow::Borrowed(inner)),
                ScalarText::Digits(digits) => Some(Cow::Borrowed(digits)),
                ScalarText::Unread => {
                    let value = parse_str(text).ok()?;
                    let name = JsonRef::Tree(&value).as_name_or_id()?;
                    Some(Cow::Owned(name.into_owned()))
                }
                ScalarText::Other => None,
            },
        }
    }

    /// Returns a count, which logs store as integers or strings of digits.
    pub fn as_count(self) -> Option<i64> {
        match self {
            Self::Tree(value) => value.as_i64().or_else(|| value.as_str()?.parse().ok()),
            Self::Text(text) => match classify_scalar(text) {
                ScalarText::Str(inner) => inner.parse().ok(),
                ScalarText::Digits(digits) => digits.parse().ok(),
                ScalarText::Unread => JsonRef::Tree(&parse_str(text).ok()?).as_count(),
                ScalarText::Other => None,
            },
        }
    }
}

/// Classification of the text of a scalar value, found without parsing it.
enum ScalarText<'j> {
    /// A string without escapes.
    Str(&'j str),
    /// An integer in its shortest form.
    Digits(&'j str),
    /// A string or a number that must be parsed.
    Unread,
    /// Any other value.
    Other,
}

fn classify_scalar(text: &str) -> ScalarText<'_> {
    let bytes = text.as_bytes();
    match bytes {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
            ScalarText::Str(text.get(1..text.len() - 1).unwrap_or_default())
        }
        // Numbers of nineteen or more digits may not fit.
        [b'1'..=b'9', ..] if bytes.len() < 19 && bytes.iter().all(u8::is_ascii_digit) => {
            ScalarText::Digits(text)
        }
        [b'"' | b'-' | b'0'..=b'9', ..] => ScalarText::Unread,
        _ => ScalarText::Other,
    }
}

/// Scanner position in a text.
struct JsonScanner<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> JsonScanner<'j> {
    fn scan_object(mut self, mut visit: impl FnMut(&str, JsonRef<'j>)) -> Result<(), InvalidJson> {
        self.skip_blanks();
        if self.peek_byte() != Some(b'{') {
            return JsonRef::Text(self.text).to_json().map(drop);
        }
        self.at += 1;
        self.skip_blanks();
        if self.peek_byte() == Some(b'}') {
            return self.expect_end();
        }
        loop {
            self.skip_blanks();
            let name = self.scan_string()?;
            self.skip_blanks();
            self.expect_byte(b':')?;
            self.skip_blanks();
            let value = JsonRef::Text(self.scan_value()?);
            match name.get(1..name.len() - 1) {
                Some(plain) if !plain.contains('\\') => visit(plain, value),
                Some(_) | None => match parse_str(name) {
                    Ok(Json::Str(key)) => visit(&key, value),
                    Ok(_) | Err(_) => return Err(InvalidJson),
                },
            }
            self.skip_blanks();
            match self.peek_byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => return self.expect_end(),
                Some(_) | None => return Err(InvalidJson),
            }
        }
    }

    /// Requires that nothing but blanks follows the object.
    fn expect_end(mut self) -> Result<(), InvalidJson> {
        self.at += 1;
        self.skip_blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(InvalidJson) }
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), InvalidJson> {
        if self.peek_byte() != Some(byte) {
            return Err(InvalidJson);
        }
        self.at += 1;
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek_byte() {
            self.at += 1;
        }
    }

    fn slice_from(&self, from: usize) -> Result<&'j str, InvalidJson> {
        self.text.get(from..self.at).ok_or(InvalidJson)
    }

    fn remaining_bytes(&self) -> &'j [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips a string and returns it with its quotes.
    fn scan_string(&mut self) -> Result<&'j str, InvalidJson> {
        let from = self.at;
        self.expect_byte(b'"')?;
        loop {
            let is_end = |byte: &u8| matches!(byte, b'"' | b'\\');
            self.at += self.remaining_bytes().iter().position(is_end).ok_or(InvalidJson)?;
            if self.peek_byte() == Some(b'"') {
                self.at += 1;
                return self.slice_from(from);
            }
            self.at += 2;
        }
    }

    fn scan_value(&mut self) -> Result<&'j str, InvalidJson> {
        let from = self.at;
        match self.peek_byte() {
            Some(b'"') => return self.scan_string(),
            Some(b'{' | b'[') => self.scan_nested()?,
            Some(_) | None => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let rest = self.remaining_bytes();
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        let value = self.slice_from(from)?;
        if value.is_empty() { Err(InvalidJson) } else { Ok(value) }
    }

    /// Skips an object or a list of any depth.
    fn scan_nested(&mut self) -> Result<(), InvalidJson> {
        let mut depth = 0_usize;
        loop {
            let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
            self.at += self.remaining_bytes().iter().position(is_mark).ok_or(InvalidJson)?;
            match self.peek_byte() {
                Some(b'"') => {
                    self.scan_string()?;
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
