use super::*;

/// Computed by another implementation: the lower half of the hash is the checksum of a zstd
/// frame with these bytes.
#[test]
fn hash_matches_reference_implementation() {
    for (bytes, lower) in VECTORS {
        let lower_half = xxhash64(**bytes) & 0xffff_ffff;
        assert_eq!(lower_half, u64::from(*lower), "{bytes:?}");
    }
}

const VECTORS: &[(&[u8; 8], u32)] = &[
    (b"\x61\x62\x63\x64\x65\x66\x67\x68", 0x5b46_34b7),
    (b"\x00\x00\x00\x00\x00\x00\x00\x00", 0xcadb_1bbb),
    (b"\xff\xff\xff\xff\xff\xff\xff\xff", 0xb773_c6c9),
    (b"\x01\x02\x03\x04\x05\x06\x07\x08", 0x2964_6e14),
];

#[test]
fn shard_is_below_shard_count() {
    for id in [1, 2, 3, 1 << 40, i64::MAX] {
        let id = ExecutionId::new(id).unwrap();
        assert_eq!(shard_for_execution(id, 1), 0);
        assert!(shard_for_execution(id, 1024) < 1024);
    }
}
