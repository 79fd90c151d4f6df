//! The way to the platform's own database, encrypted as much as the operator says.

use noetl_testkit::postgres::{AUTHORITY, tls_front};

use super::*;
use crate::Trust;

/// A database that only speaks TLS, at an address with more keys.
async fn opened(
    database: &Database,
    keys: &str,
    change: impl FnOnce(&mut PostgresOptions),
) -> Result<(), String> {
    let port = tls_front(database).await.unwrap();
    let name = database.name();
    let address = format!("user=postgres dbname={name} port={port} {keys}");
    let mut options = PostgresOptions::new(address, at("12:00:00"));
    change(&mut options);
    let opened = PostgresStore::open(&options).await;
    opened.map(drop).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn as_much_is_verified_as_the_address_says() {
    let database = Database::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, AUTHORITY).unwrap();
    let root = format!("sslrootcert={}", authority.display());
    let open = async |keys: &str| opened(&database, keys, |_| {}).await;
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
        // The machine knows nothing of this authority.
        "host=localhost hostaddr=127.0.0.1 sslmode=verify-full".to_owned(),
        "host=127.0.0.1 sslmode=verify-ca".to_owned(),
        // The certificate is for another name.
        format!("host=127.0.0.1 sslmode=verify-full {root}"),
        "host=127.0.0.1 sslmode=perhaps".to_owned(),
        "host=127.0.0.1 sslmode=verify-ca sslrootcert=/there/is/none.pem".to_owned(),
    ] {
        assert!(open(&keys).await.is_err(), "{keys}");
    }
}

#[tokio::test]
async fn settings_say_it_where_the_address_does_not() {
    let database = Database::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, AUTHORITY).unwrap();
    let here = "host=localhost hostaddr=127.0.0.1";
    let verified = opened(&database, here, |options| {
        options.trust = Some(Trust::Full);
        options.root_certificates = Some(authority.clone());
    });
    assert_eq!(verified.await, Ok(()));
    let plain = opened(&database, here, |options| {
        options.trust = Some(Trust::Plain);
    });
    assert!(plain.await.is_err());
    let louder = format!("{here} sslmode=require");
    let address_wins = opened(&database, &louder, |options| {
        options.trust = Some(Trust::Plain);
    });
    assert_eq!(address_wins.await, Ok(()));
    // Whoever is not on this machine has to prove who it is, unless told otherwise.
    let elsewhere = opened(&database, "host=db.example hostaddr=127.0.0.1", |_| {});
    assert!(elsewhere.await.is_err());
}
