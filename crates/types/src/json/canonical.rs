//! Canonical text: UTF-8, keys sorted by code point, no blanks, exact 64-bit integers, every other
//! number as RFC 8785 writes it.
//!
//! Hot paths write typed fields straight into a [`CanonicalWriter`]; nothing builds a value tree
//! only to print it.

use super::value::Json;

/// Something that can write itself as canonical JSON.
pub trait WriteCanonical {
    /// Appends the canonical text of `self`.
    fn write_canonical(&self, writer: &mut CanonicalWriter);
}

/// A growing canonical text.
#[derive(Debug, Default)]
pub struct CanonicalWriter {
    text: Vec<u8>,
}

/// The canonical bytes of a value.
pub fn to_canonical(value: &(impl WriteCanonical + ?Sized)) -> Vec<u8> {
    let mut writer = CanonicalWriter::default();
    value.write_canonical(&mut writer);
    writer.into_bytes()
}

impl CanonicalWriter {
    /// A text with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes),
        }
    }

    /// The text written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// The text written so far, where it lies.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Forgets the text, and keeps its place for the next one.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    /// Writes what is canonical already, or a part of it.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Writes `null`.
    pub fn null(&mut self) {
        self.text.extend_from_slice(b"null");
    }

    /// Writes a bool.
    pub fn bool(&mut self, value: bool) {
        self.text
            .extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a signed integer as exact digits.
    pub fn int(&mut self, value: i64) {
        self.digits(value);
    }

    /// Writes an unsigned integer as exact digits.
    pub fn uint(&mut self, value: u64) {
        self.digits(value);
    }

    /// Writes a finite number that is not a 64-bit integer.
    fn float(&mut self, value: f64) {
        self.text
            .extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
    }

    /// Writes a text with the escapes of RFC 8785: the short ones, `\u00xx` for other controls.
    pub fn text(&mut self, value: &str) {
        self.text.push(b'"');
        let bytes = value.as_bytes();
        let mut clean_from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.text.extend_from_slice(&bytes[clean_from..at]);
            clean_from = at + 1;
            self.escape(byte);
        }
        self.text.extend_from_slice(&bytes[clean_from..]);
        self.text.push(b'"');
    }

    /// Writes what is the canonical text of a value already.
    pub fn canonical(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Writes a list, each item by `write`.
    pub fn list<T>(
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

    /// Starts an object; its fields must come in sorted order.
    pub fn object(&mut self) -> CanonicalObject<'_> {
        self.text.push(b'{');
        CanonicalObject {
            writer: self,
            is_empty: true,
            last_key: None,
        }
    }

    fn escape(&mut self, byte: u8) {
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

    fn digits(&mut self, value: impl itoa::Integer) {
        self.text
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// An object being written; closes itself when dropped.
#[derive(Debug)]
pub struct CanonicalObject<'w> {
    writer: &'w mut CanonicalWriter,
    is_empty: bool,
    /// Kept in debug builds only, to check the order of keys.
    last_key: Option<String>,
}

impl CanonicalObject<'_> {
    /// Writes a key and hands out the writer for its value. Keys must rise; a debug build checks
    /// it.
    pub fn key(&mut self, key: &str) -> &mut CanonicalWriter {
        if cfg!(debug_assertions) {
            debug_assert!(
                self.last_key.as_deref().is_none_or(|last| last < key),
                "canonical keys must rise: {key:?} after {:?}",
                self.last_key
            );
            self.last_key = Some(key.to_owned());
        }
        if !self.is_empty {
            self.writer.text.push(b',');
        }
        self.is_empty = false;
        self.writer.text(key);
        self.writer.text.push(b':');
        self.writer
    }

    /// Writes a field.
    pub fn field(&mut self, key: &str, value: &(impl WriteCanonical + ?Sized)) -> &mut Self {
        value.write_canonical(self.key(key));
        self
    }

    /// Writes a field unless it is absent.
    pub fn optional<T: WriteCanonical>(&mut self, key: &str, value: Option<&T>) -> &mut Self {
        if let Some(value) = value {
            self.field(key, value);
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
            Self::Null => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::Int(value) => writer.int(*value),
            Self::UInt(value) => writer.uint(*value),
            Self::Float(value) => writer.float(*value),
            Self::Str(value) => writer.text(value),
            Self::List(items) => writer.list(items.iter(), |w, item| item.write_canonical(w)),
            Self::Map(map) => {
                let mut object = writer.object();
                for (key, value) in map.iter() {
                    object.field(key, value);
                }
            }
        }
    }
}

impl WriteCanonical for str {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.text(self);
    }
}

impl WriteCanonical for String {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.text(self);
    }
}

impl WriteCanonical for bool {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.bool(*self);
    }
}

impl WriteCanonical for i64 {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.int(*self);
    }
}

impl WriteCanonical for u64 {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.uint(*self);
    }
}

/// Canonical JSON text.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&to_canonical(self)))
    }
}
