use proptest::prelude::*;

use super::*;

#[test]
fn parses_sizes() {
    for (text, bytes) in [
        ("0", 0),
        ("65536", 65_536),
        ("64KiB", 65_536),
        ("1MiB", 1_048_576),
        ("1.5MiB", 1_572_864),
        ("2GiB", 2_147_483_648),
        (" 1KiB ", 1024),
    ] {
        assert_eq!(ByteSize::parse(text), Ok(ByteSize::from_bytes(bytes)), "{text}");
    }
    assert_eq!(ByteSize::from_json(&Json::from(512_u64)), Ok(ByteSize::from_bytes(512)));
}

#[test]
fn rejects_invalid_sizes() {
    for text in ["", "KiB", "64KB", "64kib", "64K", "64 KiB", "1.5", "-1", "1e3", "64B"] {
        let error = ByteSize::parse(text).unwrap_err();
        assert!(matches!(error, SizeTextError::Shape(_)), "{text}: {error}");
    }
    for text in ["18446744073709551616", "17179869184GiB"] {
        let error = ByteSize::parse(text).unwrap_err();
        assert!(matches!(error, SizeTextError::TooLarge(_)), "{text}: {error}");
    }
    assert_eq!(ByteSize::from_json(&Json::Bool(true)), Err(SizeTextError::Type("bool")));
}

#[test]
fn detects_exceeded_size() {
    let size = ByteSize::from_kib(1);
    assert!(!size.is_exceeded_by(1024));
    assert!(size.is_exceeded_by(1025));
}

proptest! {
    #[test]
    fn size_round_trips(bytes: u64, unit in prop::sample::select(vec![1, KIB, MIB, GIB])) {
        let size = ByteSize::from_bytes(bytes - bytes % unit);
        prop_assert_eq!(ByteSize::parse(&size.to_string()), Ok(size));
        let json = serde_json::to_string(&size).unwrap();
        prop_assert_eq!(serde_json::from_str::<ByteSize>(&json).unwrap(), size);
    }
}
