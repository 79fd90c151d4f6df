use std::io::empty;

use super::*;
use crate::io::{Env, OutputStream};
use crate::profile::Profile;

/// Resolves flags and an environment, with two profiles: `staging`, which names a token, and
/// `bare`, which does not.
fn resolve_with<T>(
    flags: &[(&'static str, &'static str, &str)],
    env: &[(&str, &str)],
    selected_profile: Option<&str>,
    resolve: impl FnOnce(&Config, &Io<'_>) -> Result<T>,
) -> T {
    let home = tempfile::tempdir().unwrap();
    let config_home = home.path().to_string_lossy().into_owned();
    let default_env = [("XDG_CONFIG_HOME", config_home.as_str()), ("STAGING_TOKEN", "of-staging")];
    let env: Env = default_env.iter().chain(env).copied().collect();
    let mut profiles =
        ProfileFile { current: selected_profile.map(str::to_owned), ..ProfileFile::default() };
    for (name, token) in [("staging", Some("STAGING_TOKEN")), ("bare", None)] {
        let profile = Profile {
            server: format!("http://{name}:8082"),
            token_env: token.map(str::to_owned),
            token_file: None,
        };
        profiles.profiles.insert(name.to_owned(), profile);
    }
    profiles.save_file(&env).unwrap();
    let mut given = GivenSettings::default();
    for (name, flag, text) in flags {
        given.flags.insert(name, (flag, (*text).to_owned()));
    }
    let config = Config::load(&given, &env).unwrap();
    let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
    let io = Io {
        input: &mut input,
        out: OutputStream::plain(&mut out),
        err: OutputStream::plain(&mut err),
        env,
        quiet: false,
    };
    resolve(&config, &io).unwrap()
}

const PRODUCTION: (&str, &str) = ("NOETL_TOKEN", "of-production");

fn selected_url_and_token(
    flags: &[(&'static str, &'static str, &str)],
    env: &[(&str, &str)],
    selected_profile: Option<&str>,
) -> (String, Option<String>) {
    match resolve_with(flags, env, selected_profile, select_server) {
        ServerSelection::Server { url, token, .. } => (url, token),
        ServerSelection::Unspecified => panic!("a server is selected"),
    }
}

#[test]
fn profile_uses_its_token_not_the_environment() {
    let staging = ("NOETL_PROFILE", "profile", "staging");
    let bare = ("NOETL_PROFILE", "profile", "bare");
    let of_staging = ("http://staging:8082".to_owned(), Some("of-staging".to_owned()));
    let of_bare = ("http://bare:8082".to_owned(), None);
    assert_eq!(selected_url_and_token(&[staging], &[PRODUCTION], None), of_staging);
    assert_eq!(selected_url_and_token(&[], &[PRODUCTION], Some("staging")), of_staging);
    let env = [PRODUCTION, ("NOETL_PROFILE", "staging")];
    assert_eq!(selected_url_and_token(&[], &env, None), of_staging);
    assert_eq!(selected_url_and_token(&[bare], &[PRODUCTION], None), of_bare);
    assert_eq!(selected_url_and_token(&[], &[PRODUCTION], Some("bare")), of_bare);
}

#[test]
fn environment_token_is_for_servers_without_profile() {
    let token = Some("of-production".to_owned());
    let server = ("NOETL_SERVER_URL", "server", "http://there:1");
    let of_flag = ("http://there:1".to_owned(), token.clone());
    assert_eq!(selected_url_and_token(&[server], &[PRODUCTION], Some("staging")), of_flag);
    let env = [PRODUCTION, ("NOETL_SERVER_URL", "http://env:1")];
    let of_env = ("http://env:1".to_owned(), token);
    assert_eq!(selected_url_and_token(&[], &env, Some("staging")), of_env);
}

fn is_same_origin(left: &str, right: &str) -> bool {
    url_origin(left) == url_origin(right)
}

#[test]
fn servers_are_compared_by_origin() {
    assert!(is_same_origin("https://noetl.example.com", "https://NOETL.example.com:443/"));
    assert!(is_same_origin("http://h:80/api", "http://h"));
    assert!(!is_same_origin("http://h:8082", "http://h:8083"));
    assert!(!is_same_origin("http://h:443", "https://h:443"));
    assert!(!is_same_origin("http://h", "http://h.example.com"));
}

const PROFILE: (&str, &str, &str) = ("NOETL_PROFILE", "profile", "staging");
const SERVER: (&str, &str, &str) = ("NOETL_SERVER_URL", "server", "http://named:1");
const INTERNAL: (&str, &str) = ("NOETL_INTERNAL_URL", "http://production:8083");
const INTERNAL_API_TOKEN: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", "of the platform");

fn selected_endpoint(
    flags: &[(&'static str, &'static str, &str)],
    env: &[(&str, &str)],
    selected_profile: Option<&str>,
) -> (String, Option<String>) {
    let (url, token) = resolve_with(flags, env, selected_profile, select_operator_endpoint);
    (url.unwrap(), token)
}

fn endpoint(url: &str, token: &str) -> (String, Option<String>) {
    (url.to_owned(), Some(token.to_owned()))
}

#[test]
fn server_flag_overrides_internal_url() {
    let env = [INTERNAL, INTERNAL_API_TOKEN];
    let staging = endpoint("http://staging:8082", "of-staging");
    assert_eq!(selected_endpoint(&[PROFILE], &env, None), staging);
    let named = endpoint("http://named:1", "of the platform");
    assert_eq!(selected_endpoint(&[SERVER], &env, Some("staging")), named);
    let production = endpoint("http://production:8083", "of the platform");
    assert_eq!(selected_endpoint(&[], &env, Some("staging")), production);
}

#[test]
fn internal_token_is_not_sent_to_other_servers() {
    let staging = endpoint("http://staging:8082", "of-staging");
    assert_eq!(selected_endpoint(&[PROFILE], &[INTERNAL_API_TOKEN], None), staging);
    assert_eq!(selected_endpoint(&[], &[INTERNAL_API_TOKEN], Some("staging")), staging);
    let same = ("NOETL_INTERNAL_URL", "http://staging:8082/");
    let own_server = endpoint("http://staging:8082", "of the platform");
    assert_eq!(selected_endpoint(&[PROFILE], &[INTERNAL_API_TOKEN, same], None), own_server);
    let same = ("NOETL_SERVER_URL", "http://staging:8082");
    assert_eq!(selected_endpoint(&[PROFILE], &[INTERNAL_API_TOKEN, same], None), own_server);
}
