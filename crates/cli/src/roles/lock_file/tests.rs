use super::*;

#[test]
fn lock_file_is_visible_while_held() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("x.db");
    assert_eq!(ServerLockFile::read_beside(&database), None);
    let lock_file = ServerLockFile::new("http://127.0.0.1:1".to_owned());
    let guard = lock_file.write_beside(&database).unwrap();
    assert_eq!(ServerLockFile::read_beside(&database), Some(lock_file));
    drop(guard);
    assert_eq!(ServerLockFile::read_beside(&database), None);
}
