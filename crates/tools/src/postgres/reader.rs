//! Reader of numbers and byte ranges.

/// Remaining bytes. Every read returns `None` if too few are left.
#[derive(Debug)]
pub(super) struct ByteReader<'r>(pub(super) &'r [u8]);

impl<'r> ByteReader<'r> {
    pub(super) fn take_bytes(&mut self, length: usize) -> Option<&'r [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn read_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_bytes(N)?.try_into().ok()
    }

    pub(super) fn read_u8(&mut self) -> Option<u8> {
        self.read_array().map(u8::from_be_bytes)
    }

    pub(super) fn read_i16(&mut self) -> Option<i16> {
        self.read_array().map(i16::from_be_bytes)
    }

    pub(super) fn read_i32(&mut self) -> Option<i32> {
        self.read_array().map(i32::from_be_bytes)
    }

    pub(super) fn read_i64(&mut self) -> Option<i64> {
        self.read_array().map(i64::from_be_bytes)
    }

    /// Reads a value that is preceded by its length. The inner `None` is NULL, whose length is -1.
    #[expect(clippy::option_option, reason = "missing bytes and NULL are different cases")]
    pub(super) fn read_sized(&mut self) -> Option<Option<&'r [u8]>> {
        let length = self.read_i32()?;
        match usize::try_from(length) {
            Ok(length) => self.take_bytes(length).map(Some),
            Err(_) => Some(None),
        }
    }
}
