//! Sharding of executions by a stable hash.

use noetl_types::ExecutionId;

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

/// Returns the shard of an execution, from 0 to `count - 1`.
pub(super) fn shard_for_execution(execution_id: ExecutionId, count: u32) -> u32 {
    let hash = xxhash64(execution_id.get().to_le_bytes());
    u32::try_from(hash % u64::from(count.max(1))).unwrap_or(0)
}

/// xxHash64 with seed 0 of eight bytes, the only length hashed here.
fn xxhash64(bytes: [u8; 8]) -> u64 {
    let word =
        u64::from_le_bytes(bytes).wrapping_mul(PRIME_2).rotate_left(31).wrapping_mul(PRIME_1);
    let mut hash = PRIME_5.wrapping_add(8) ^ word;
    hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
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
}
