use super::*;

#[test]
fn detects_network_file_systems() {
    for (magic, kind) in [(0x6969, Some("NFS")), (0xff53_4d42, Some("CIFS"))] {
        assert_eq!(network_filesystem_name(magic), kind);
    }
    // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
    for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
        assert_eq!(network_filesystem_name(local), None);
    }
}

#[test]
fn lock_errors_say_what_to_do() {
    let path = PathBuf::from("noetl.db");
    let network = FileLockError::Network { path: path.clone(), kind: "NFS" };
    assert_eq!(
        network.to_string(),
        "noetl.db is on a network file system (NFS), where locks and syncs are unreliable; put \
             the file on a local disk, or use PostgreSQL"
    );
    let unknown = FileLockError::InUse { path, holder: LockHolder::Unknown };
    assert!(unknown.to_string().starts_with("another process (PID unknown) has "));
}
