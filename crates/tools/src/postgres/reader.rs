//! Numbers and pieces from the front of bytes.

/// What is left to read. Every read is `None` when too little is left.
#[derive(Debug)]
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

impl<'r> Reader<'r> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'r [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A piece behind its length; the inner `None` is NULL, whose length is -1.
    #[expect(
        clippy::option_option,
        reason = "that bytes are missing and that they are NULL are different things"
    )]
    pub(super) fn sized(&mut self) -> Option<Option<&'r [u8]>> {
        let length = self.i32()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }
}
