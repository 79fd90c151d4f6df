use super::*;
use noetl_types::json::parse;

fn read_target(config: &str) -> Result<PostgresTarget, TaskError> {
    let config = parse(config.as_bytes()).unwrap();
    PostgresTarget::from_config(Config(config.as_map().unwrap()))
}

fn tcp_address(name: &str, port: u16) -> ServerEndpoint {
    endpoint_for_host(name.to_owned(), port)
}

#[test]
fn fields_override_credentials_and_connection_string() {
    let target = read_target(
            r#"{"connection_string": "host=a port=1 user=u dbname=d", "db_name": "mine",
                "auth": {"type": "postgres", "db_host": "b", "db_port": "2", "db_name": "theirs"}}"#,
        )
        .unwrap();
    assert_eq!(target.endpoints, [tcp_address("b", 2)]);
    assert_eq!(target.login.get_user(), Some("u"));
    assert_eq!(target.login.get_dbname(), Some("mine"));
    assert_eq!(target.verification, TlsVerification::Prefer);
}

#[test]
fn parses_both_connection_string_forms() {
    let url = read_target(
        r#"{"connection_string": "postgres://u:p%40x@h1,h2:6000/d?sslmode=verify-full"}"#,
    )
    .unwrap();
    assert_eq!(url.verification, TlsVerification::VerifyFull);
    assert_eq!(url.login.get_password(), Some(&b"p@x"[..]));
    assert_eq!(url.endpoints.len(), 2);
    let pairs = read_target(r#"{"connection_string": "host=/run/pg sslmode='disable' dbname=d"}"#);
    let pairs = pairs.unwrap();
    assert_eq!(pairs.verification, TlsVerification::Disable);
    let folder = "/run/pg".to_owned();
    assert_eq!(pairs.endpoints, [ServerEndpoint::Unix { folder, port: 5432 }]);
}

#[test]
fn rejects_invalid_target() {
    let kind = |config: &str| read_target(config).err().unwrap().kind;
    assert_eq!(kind("{}"), TaskErrorKind::Auth);
    assert_eq!(kind(r#"{"auth": "pg_main"}"#), TaskErrorKind::Auth);
    assert_eq!(kind(r#"{"auth": {"type": "bearer"}}"#), TaskErrorKind::Auth);
    let source = r#"{"auth": {"source": "credential", "key": "pg_main"}}"#;
    assert_eq!(kind(source), TaskErrorKind::Auth);
    let mode = r#"{"db_host": "h", "sslmode": "maybe"}"#;
    assert_eq!(kind(mode), TaskErrorKind::Schema);
    let port = r#"{"db_host": "h", "db_port": "many"}"#;
    assert_eq!(kind(port), TaskErrorKind::Schema);
}

#[test]
fn different_password_is_different_target() {
    let identity_with = |password: &str| {
        let config = format!(r#"{{"db_host": "h", "db_password": "{password}"}}"#);
        read_target(&config).unwrap().identity
    };
    assert_ne!(identity_with("a"), identity_with("b"));
    assert_eq!(identity_with("a"), identity_with("a"));
}
