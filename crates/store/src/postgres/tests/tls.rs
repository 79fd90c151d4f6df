//! TLS to the platform's database, by connection string and settings.

use noetl_testkit::postgres::{TLS_AUTHORITY_PEM, start_tls_proxy};

use super::*;
use crate::TlsVerification;

/// Opens a store on a database that accepts only TLS, with extra keys in the connection string.
async fn open_with_tls(
    database: &TestDatabase,
    keys: &str,
    change: impl FnOnce(&mut PostgresOptions),
) -> Result<(), String> {
    let port = start_tls_proxy(database).await.unwrap();
    let name = database.name();
    let address = format!("user=postgres dbname={name} port={port} {keys}");
    let mut options = PostgresOptions::new(address, test_time("12:00:00"));
    change(&mut options);
    let opened = PostgresStore::open(&options).await;
    opened.map(drop).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn sslmode_decides_verification() {
    let database = TestDatabase::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, TLS_AUTHORITY_PEM).unwrap();
    let root = format!("sslrootcert={}", authority.display());
    let open = async |keys: &str| open_with_tls(&database, keys, |_| {}).await;
    for keys in [
        "host=127.0.0.1".to_owned(),
        "host=127.0.0.1 sslmode=require".to_owned(),
        format!("host=127.0.0.1 sslmode=verify-ca {root}"),
        format!("host=localhost hostaddr=127.0.0.1 sslmode=verify-full {root}"),
    ] {
        assert_eq!(open(&keys).await, Ok(()), "{keys}");
    }
    for keys in [
        "host=127.0.0.1 sslmode=disable".to_owned(),
        // The system does not trust this authority.
        "host=localhost hostaddr=127.0.0.1 sslmode=verify-full".to_owned(),
        "host=127.0.0.1 sslmode=verify-ca".to_owned(),
        // The certificate has another name.
        format!("host=127.0.0.1 sslmode=verify-full {root}"),
        "host=127.0.0.1 sslmode=perhaps".to_owned(),
        "host=127.0.0.1 sslmode=verify-ca sslrootcert=/there/is/none.pem".to_owned(),
    ] {
        assert!(open(&keys).await.is_err(), "{keys}");
    }
}

#[tokio::test]
async fn settings_apply_without_sslmode() {
    let database = TestDatabase::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, TLS_AUTHORITY_PEM).unwrap();
    let address = "host=localhost hostaddr=127.0.0.1";
    let verified = open_with_tls(&database, address, |options| {
        options.trust = Some(TlsVerification::VerifyFull);
        options.root_certificates = Some(authority.clone());
    });
    assert_eq!(verified.await, Ok(()));
    let plain = open_with_tls(&database, address, |options| {
        options.trust = Some(TlsVerification::Disable);
    });
    assert!(plain.await.is_err());
    let with_sslmode = format!("{address} sslmode=require");
    let address_wins = open_with_tls(&database, &with_sslmode, |options| {
        options.trust = Some(TlsVerification::Disable);
    });
    assert_eq!(address_wins.await, Ok(()));
    // A server on another machine has to present a trusted certificate by default.
    let elsewhere = open_with_tls(&database, "host=db.example hostaddr=127.0.0.1", |_| {});
    assert!(elsewhere.await.is_err());
}
