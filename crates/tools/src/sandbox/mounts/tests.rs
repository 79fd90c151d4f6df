use super::*;

#[test]
fn parses_escaped_mount_names() {
    assert_eq!(unescape_mount_path(r"/a\040b\134c"), PathBuf::from(r"/a b\c"));
    assert_eq!(unescape_mount_path(r"/plain\"), PathBuf::from(r"/plain\"));
    let flags = preserved_flags("rw,nosuid,relatime");
    assert_eq!(flags, MountFlags::NOSUID | MountFlags::RELATIME);
}
