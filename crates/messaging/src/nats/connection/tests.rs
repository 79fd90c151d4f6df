use super::*;

#[test]
fn detects_unsupported_server_versions() {
    for outdated in ["2.9.10", "2.10.22", "1.99.99", "dev", "2.10"] {
        assert!(is_outdated_version(outdated), "{outdated}");
    }
    for supported in ["2.10.23", "2.11.0", "2.12.0-beta.1", "3.0.0"] {
        assert!(!is_outdated_version(supported), "{supported}");
    }
}

#[test]
fn debug_of_settings_hides_secrets() {
    let settings = NatsConnectionSettings {
        url: "nats://u:hidden@h".into(),
        user: Some(("u".into(), "hidden".into())),
        token: Some("hidden".into()),
        name: "x".into(),
    };
    assert!(!format!("{settings:?}").contains("hidden"));
}
