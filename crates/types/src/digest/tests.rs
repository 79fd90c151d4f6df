use proptest::prelude::*;

use super::*;

const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn matches_known_digest() {
    assert_eq!(sha256(b"abc").to_string(), ABC_SHA256);
    assert_eq!(sha256_of_parts(&[b"a", b"", b"bc"]), sha256(b"abc"));
    assert_eq!(format!("{:?}", sha256(b"abc")), format!("Digest({ABC_SHA256})"));
}

#[test]
fn parses_hex_text() {
    assert_eq!(Digest::parse(ABC_SHA256), Ok(sha256(b"abc")));
    assert_eq!(Digest::parse(&ABC_SHA256.to_uppercase()), Ok(sha256(b"abc")));
    for wrong in ["", "ba78", &ABC_SHA256[1..], &ABC_SHA256.replace('b', "g"), &"é".repeat(32)] {
        assert_eq!(Digest::parse(wrong), Err(DigestTextError), "{wrong}");
    }
}

#[test]
fn rejects_wrong_byte_length() {
    assert_eq!(Digest::try_from(&[0_u8; 31][..]), Err(DigestLengthError(31)));
    assert_eq!(Digest::try_from(&[7_u8; 32][..]), Ok(Digest::from_bytes([7; 32])));
}

proptest! {
    #[test]
    fn digest_round_trips(bytes: [u8; 32]) {
        let digest = Digest::from_bytes(bytes);
        prop_assert_eq!(digest.to_string().parse(), Ok(digest));
        let json = serde_json::to_string(&digest).unwrap();
        prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
    }
}
