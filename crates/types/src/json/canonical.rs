//! Canonical JSON text: UTF-8, keys sorted by code point, no blanks, exact 64-bit integers, all
//! other numbers as in RFC 8785.
//!
//! Hot paths write typed fields directly to a [`CanonicalWriter`] instead of building a value tree
//! first.

use super::value::Json;
use crate::event::EventName;
use crate::status::StatusName;
use crate::text::Text;

/// Types that can be written as canonical JSON.
pub trait WriteCanonical {
    /// Appends the canonical text of `self`.
    fn write_canonical(&self, writer: &mut CanonicalWriter);

    /// True if an object omits a field with this value.
    fn is_absent(&self) -> bool {
        false
    }
}

/// `None` is omitted.
impl<T: WriteCanonical> WriteCanonical for Option<T> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        match self {
            Some(value) => value.write_canonical(writer),
            None => writer.write_null(),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: WriteCanonical> WriteCanonical for Vec<T> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_list(self, |writer, item| item.write_canonical(writer));
    }
}

/// Buffer of canonical text.
#[derive(Debug, Default)]
pub struct CanonicalWriter {
    text: String,
}

/// Returns the canonical bytes of a value.
pub fn to_canonical(value: &(impl WriteCanonical + ?Sized)) -> Vec<u8> {
    let mut text = String::new();
    push_canonical(value, &mut text);
    text.into_bytes()
}

/// Appends the canonical text of a value.
pub fn push_canonical(value: &(impl WriteCanonical + ?Sized), text: &mut String) {
    let mut writer = CanonicalWriter { text: std::mem::take(text) };
    value.write_canonical(&mut writer);
    *text = writer.text;
}

impl CanonicalWriter {
    /// Creates a writer with capacity for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes) }
    }

    /// Returns the text written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    /// Returns a view of the text written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Clears the text and keeps the allocated buffer.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    /// Writes `null`.
    pub fn write_null(&mut self) {
        self.text.push_str("null");
    }

    /// Writes a bool.
    pub fn write_bool(&mut self, value: bool) {
        self.text.push_str(if value { "true" } else { "false" });
    }

    /// Writes a signed integer as exact digits.
    pub fn write_int(&mut self, value: i64) {
        self.write_digits(value);
    }

    /// Writes an unsigned integer as exact digits.
    pub fn write_uint(&mut self, value: u64) {
        self.write_digits(value);
    }

    /// Writes a finite number that is not a 64-bit integer.
    fn write_float(&mut self, value: f64) {
        self.text.push_str(ryu_js::Buffer::new().format_finite(value));
    }

    /// Writes a string with the escapes of RFC 8785: the short ones, and `\u00xx` for other control
    /// characters.
    pub fn write_text(&mut self, value: &str) {
        self.text.push('"');
        let mut clean_from = 0;
        for (at, byte) in value.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.text.push_str(&value[clean_from..at]);
            clean_from = at + 1;
            self.write_escape(byte);
        }
        self.text.push_str(&value[clean_from..]);
        self.text.push('"');
    }

    /// Writes text that already is canonical, or a part of it.
    pub fn write_canonical_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes a list, with `write` for each item.
    pub fn write_list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.text.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            write(self, item);
        }
        self.text.push(']');
    }

    /// Starts an object. Its fields must be written in sorted order.
    pub fn begin_object(&mut self) -> CanonicalObject<'_> {
        self.text.push('{');
        CanonicalObject { writer: self, is_empty: true, last_key: None }
    }

    fn write_escape(&mut self, byte: u8) {
        match byte {
            b'"' => self.text.push_str("\\\""),
            b'\\' => self.text.push_str("\\\\"),
            0x08 => self.text.push_str("\\b"),
            b'\t' => self.text.push_str("\\t"),
            b'\n' => self.text.push_str("\\n"),
            0x0c => self.text.push_str("\\f"),
            b'\r' => self.text.push_str("\\r"),
            control => self.text.push_str(&format!("\\u{control:04x}")),
        }
    }

    fn write_digits(&mut self, value: impl itoa::Integer) {
        self.text.push_str(itoa::Buffer::new().format(value));
    }
}

/// An object being written. Dropping it writes the closing brace.
#[derive(Debug)]
pub struct CanonicalObject<'w> {
    writer: &'w mut CanonicalWriter,
    is_empty: bool,
    /// Set in debug builds only, to check the order of keys.
    last_key: Option<String>,
}

impl CanonicalObject<'_> {
    /// Writes a key and returns the writer for its value. Keys must be in ascending order, which
    /// debug builds check.
    pub fn write_key(&mut self, key: &str) -> &mut CanonicalWriter {
        if cfg!(debug_assertions) {
            debug_assert!(
                self.last_key.as_deref().is_none_or(|last| last < key),
                "canonical keys must be in ascending order: {key:?} after {:?}",
                self.last_key
            );
            self.last_key = Some(key.to_owned());
        }
        if !self.is_empty {
            self.writer.text.push(',');
        }
        self.is_empty = false;
        self.writer.write_text(key);
        self.writer.text.push(':');
        self.writer
    }

    /// Writes a field, unless its value is absent.
    pub fn write_field(&mut self, key: &str, value: &(impl WriteCanonical + ?Sized)) -> &mut Self {
        if !value.is_absent() {
            value.write_canonical(self.write_key(key));
        }
        self
    }
}

impl Drop for CanonicalObject<'_> {
    fn drop(&mut self) {
        self.writer.text.push('}');
    }
}

impl WriteCanonical for Json {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        match self {
            Self::Null => writer.write_null(),
            Self::Bool(value) => writer.write_bool(*value),
            Self::Int(value) => writer.write_int(*value),
            Self::UInt(value) => writer.write_uint(*value),
            Self::Float(value) => writer.write_float(*value),
            Self::Str(value) => writer.write_text(value),
            Self::List(items) => writer.write_list(items.iter(), |w, item| item.write_canonical(w)),
            Self::Map(map) => {
                let mut object = writer.begin_object();
                for (key, value) in map.iter() {
                    object.write_field(key, value);
                }
            }
        }
    }
}

/// Implements [`WriteCanonical`] for types by an expression each.
macro_rules! write_canonical {
    ($( $kind:ty => |$value:ident, $writer:ident| $write:expr; )+) => {
        $(
            impl WriteCanonical for $kind {
                fn write_canonical(&self, $writer: &mut CanonicalWriter) {
                    let $value = self;
                    $write;
                }
            }
        )+
    };
}

write_canonical! {
    str => |text, writer| writer.write_text(text);
    String => |text, writer| writer.write_text(text);
    bool => |value, writer| writer.write_bool(*value);
    i64 => |number, writer| writer.write_int(*number);
    u64 => |number, writer| writer.write_uint(*number);
    Text => |text, writer| writer.write_text(text);
    StatusName => |status, writer| writer.write_text(status.as_str());
    EventName => |name, writer| writer.write_text(name.as_str());
}

/// Writes canonical JSON text.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        push_canonical(self, &mut text);
        f.write_str(&text)
    }
}
