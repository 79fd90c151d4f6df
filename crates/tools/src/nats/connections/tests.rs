use noetl_types::json::parse;

use super::*;

fn read_target(config: &str) -> Result<NatsTarget, TaskError> {
    let config = parse(config.as_bytes()).unwrap();
    NatsTarget::from_config(Config(config.as_map().unwrap()), &Settings::default())
}

#[test]
fn reads_server_address() {
    let target = read_target(r#"{"url": "nats://u:p%40x@h:5000"}"#).unwrap();
    assert_eq!((target.host.as_str(), target.port), ("h", 5000));
    assert_eq!(target.user, Some(("u".into(), "p@x".into())));
    assert!(!target.is_encrypted);
    let bare = read_target(r#"{"url": "h", "auth": {"type": "nats", "token": "t"}}"#).unwrap();
    assert_eq!((bare.port, bare.token.as_deref()), (4222, Some("t")));
    let auth = r#"{"auth": {"url": "tls://[::1]:1", "user": "u", "password": "p"}}"#;
    let auth = read_target(auth).unwrap();
    assert_eq!((auth.host.as_str(), auth.is_encrypted), ("::1", true));
}

#[test]
fn task_without_server_uses_operator_settings() {
    let settings = Settings {
        nats: Some(NatsSettings {
            url: "nats://a:1, nats://b:2".into(),
            user: Some(("operator".into(), "hunter22".into())),
            token: None,
        }),
        ..Settings::default()
    };
    let read = |config: &str| {
        let config = parse(config.as_bytes()).unwrap();
        NatsTarget::from_config(Config(config.as_map().unwrap()), &settings).unwrap()
    };
    let target = read(r#"{"auth": {"type": "nats", "user": "somebody"}}"#);
    assert_eq!((target.host.as_str(), target.port), ("a", 1));
    assert_eq!(target.user, Some(("operator".into(), "hunter22".into())));
    assert!(target.is_operator_server);
    // A server that the task names gets no credentials of the operator, even if it is the same
    // one.
    let named = read(r#"{"url": "nats://a:1"}"#);
    assert_eq!((named.user, named.token), (None, None));
    assert!(!named.is_operator_server);
    assert!(!format!("{settings:?}").contains("hunter22"));
}

#[test]
fn rejects_invalid_server() {
    let message = |config: &str| read_target(config).err().unwrap().message.to_string();
    assert_eq!(message("{}"), "'url' or 'auth' is missing");
    let scheme = message(r#"{"url": "http://u:secret@h"}"#);
    assert_eq!(scheme, "'url' must begin with nats:// or tls://");
    assert!(message(r#"{"auth": {"type": "bearer"}}"#).contains("must be of type nats"));
}

#[test]
fn different_secret_is_different_target() {
    let identity_with = |token: &str| {
        let config = format!(r#"{{"url": "h", "auth": {{"token": "{token}"}}}}"#);
        read_target(&config).unwrap().identity
    };
    assert_ne!(identity_with("a"), identity_with("b"));
    assert_eq!(identity_with("a"), identity_with("a"));
}
