//! Canonical JSON text: UTF-8, keys sorted by code point, no blanks, exact 64-bit integers, all
//! other numbers as in RFC 8785.
//!
//! Hot paths write typed fields directly to a [`CanonicalWriter`] instead of building a value tree
//! first.

use super::value::Json;

/// Types that can be written as canonical JSON.
pub trait WriteCanonical {
    /// Appends the canonical text of `self`.
    fn write_canonical(&self, writer: &mut CanonicalWriter);
}

/// Buffer of canonical text.
#[derive(Debug, Default)]
pub struct CanonicalWriter {
    text: Vec<u8>,
}

/// Returns the canonical bytes of a value.
pub fn to_canonical(value: &(impl WriteCanonical + ?Sized)) -> Vec<u8> {
    let mut writer = CanonicalWriter::default();
    value.write_canonical(&mut writer);
    writer.into_bytes()
}

impl CanonicalWriter {
    /// Creates a writer with capacity for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes) }
    }

    /// Returns the text written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// Returns a view of the text written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Clears the text and keeps the allocated buffer.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends bytes that are already canonical text, or a part of it.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Writes `null`.
    pub fn write_null(&mut self) {
        self.text.extend_from_slice(b"null");
    }

    /// Writes a bool.
    pub fn write_bool(&mut self, value: bool) {
        self.text.extend_from_slice(if value { b"true" } else { b"false" });
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
        self.text.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
    }

    /// Writes a string with the escapes of RFC 8785: the short ones, and `\u00xx` for other control
    /// characters.
    pub fn write_text(&mut self, value: &str) {
        self.text.push(b'"');
        let bytes = value.as_bytes();
        let mut clean_from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.text.extend_from_slice(&bytes[clean_from..at]);
            clean_from = at + 1;
            self.write_escape(byte);
        }
        self.text.extend_from_slice(&bytes[clean_from..]);
        self.text.push(b'"');
    }

    /// Writes text that already is the canonical form of a value.
    pub fn write_canonical_text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Writes a list, with `write` for each item.
    pub fn write_list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.text.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.text.push(b',');
            }
            write(self, item);
        }
        self.text.push(b']');
    }

    /// Starts an object. Its fields must be written in sorted order.
    pub fn begin_object(&mut self) -> CanonicalObject<'_> {
        self.text.push(b'{');
        CanonicalObject { writer: self, is_empty: true, last_key: None }
    }

    fn write_escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        match byte {
            b'"' => self.text.extend_from_slice(b"\\\""),
            b'\\' => self.text.extend_from_slice(b"\\\\"),
            0x08 => self.text.extend_from_slice(b"\\b"),
            b'\t' => self.text.extend_from_slice(b"\\t"),
            b'\n' => self.text.extend_from_slice(b"\\n"),
            0x0c => self.text.extend_from_slice(b"\\f"),
            b'\r' => self.text.extend_from_slice(b"\\r"),
            control => {
                self.text.extend_from_slice(b"\\u00");
                self.text.push(HEX[usize::from(control >> 4)]);
                self.text.push(HEX[usize::from(control & 0xf)]);
            }
        }
    }

    fn write_digits(&mut self, value: impl itoa::Integer) {
        self.text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
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
            self.writer.text.push(b',');
        }
        self.is_empty = false;
        self.writer.write_text(key);
        self.writer.text.push(b':');
        self.writer
    }

    /// Writes a field.
    pub fn write_field(&mut self, key: &str, value: &(impl WriteCanonical + ?Sized)) -> &mut Self {
        value.write_canonical(self.write_key(key));
        self
    }

    /// Writes a field if it is present.
    pub fn write_optional<T: WriteCanonical>(&mut self, key: &str, value: Option<&T>) -> &mut Self {
        if let Some(value) = value {
            self.write_field(key, value);
        }
        self
    }
}

impl Drop for CanonicalObject<'_> {
    fn drop(&mut self) {
        self.writer.text.push(b'}');
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

impl WriteCanonical for str {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_text(self);
    }
}

impl WriteCanonical for String {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_text(self);
    }
}

impl WriteCanonical for bool {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_bool(*self);
    }
}

impl WriteCanonical for i64 {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_int(*self);
    }
}

impl WriteCanonical for u64 {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_uint(*self);
    }
}

/// Writes canonical JSON text.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&to_canonical(self)))
    }
}
