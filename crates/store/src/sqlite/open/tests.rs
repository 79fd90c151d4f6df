use super::*;

#[test]
fn old_sqlite_is_refused() {
    let error = check_sqlite_version(3_051_002, "3.51.2").unwrap_err();
    assert!(error.to_string().starts_with("SQLite 3.51.2 is too old"));
    check_sqlite_version(MIN_SQLITE_VERSION, "3.51.3").unwrap();
}

/// An in-memory database has no write-ahead log and ignores the setting.
#[test]
fn file_without_wal_is_refused() {
    let connection = Connection::open_in_memory().unwrap();
    let error = apply_durability_settings(&connection).unwrap_err();
    let StoreError::Fatal { cause } = error else {
        panic!("{error:?}");
    };
    assert_eq!(cause.to_string(), "the setting journal_mode is memory, but must be WAL");
}

#[test]
fn unsynced_setting_is_refused() {
    let connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let result = check_setting(&connection, "synchronous", "FULL", "2");
    let Err(StoreError::Fatal { cause }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(cause.to_string(), "the setting synchronous is 1, but must be FULL");
}
