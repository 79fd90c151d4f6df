//! SHA-256 digests and their hexadecimal text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A SHA-256 digest; its text is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Self::LEN]);

/// A text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct DigestTextError;

/// Bytes that cannot be a digest because of their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 32 bytes, not {0}")]
pub struct DigestLengthError(pub usize);

/// The SHA-256 digest of some bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// The SHA-256 digest of several pieces, one after the other, without joining them first.
pub fn sha256_of_parts(parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    Digest(hasher.finalize().into())
}

/// A digest that is being taken, piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Goes on with some bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl Digest {
    /// Number of bytes.
    pub const LEN: usize = 32;

    /// A digest that was computed before.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Whether two digests of secrets are the same, found out in a time that does not depend on where
    /// they differ.
    pub fn is_same_as_secret(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Reads the text form; capital digits are understood.
    pub fn parse(text: &str) -> Result<Self, DigestTextError> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::LEN {
            return Err(DigestTextError);
        }
        let mut bytes = [0; Self::LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, DigestTextError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(DigestTextError),
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = DigestLengthError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| DigestLengthError(bytes.len()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * Self::LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 0xf)];
        }
        f.pad(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "a digest", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn known_digest() {
        assert_eq!(sha256(b"abc").to_string(), OF_ABC);
        assert_eq!(sha256_of_parts(&[b"a", b"", b"bc"]), sha256(b"abc"));
        assert_eq!(format!("{:?}", sha256(b"abc")), format!("Digest({OF_ABC})"));
    }

    #[test]
    fn text_form() {
        assert_eq!(Digest::parse(OF_ABC), Ok(sha256(b"abc")));
        assert_eq!(Digest::parse(&OF_ABC.to_uppercase()), Ok(sha256(b"abc")));
        for wrong in [
            "",
            "ba78",
            &OF_ABC[1..],
            &OF_ABC.replace('b', "g"),
            &"é".repeat(32),
        ] {
            assert_eq!(Digest::parse(wrong), Err(DigestTextError), "{wrong}");
        }
    }

    #[test]
    fn bytes_of_the_wrong_number() {
        assert_eq!(
            Digest::try_from(&[0_u8; 31][..]),
            Err(DigestLengthError(31))
        );
        assert_eq!(
            Digest::try_from(&[7_u8; 32][..]),
            Ok(Digest::from_bytes([7; 32]))
        );
    }

    proptest! {
        #[test]
        fn round_trip(bytes: [u8; 32]) {
            let digest = Digest::from_bytes(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            let json = serde_json::to_string(&digest).unwrap();
            prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        }
    }
}
