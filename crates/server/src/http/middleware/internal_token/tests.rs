use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;

use super::*;

fn accepts_authorization(authorization: &[&'static str]) -> bool {
    let mut headers = HeaderMap::new();
    for value in authorization {
        headers.append(AUTHORIZATION, HeaderValue::from_static(value));
    }
    check_internal_token(Some(InternalToken::new("open sesame")), &headers).unwrap()
}

#[test]
fn reads_token_from_bearer_and_basic() {
    assert!(accepts_authorization(&["Bearer open sesame"]));
    assert!(accepts_authorization(&["bearer open sesame"]));
    // keda:open sesame
    assert!(accepts_authorization(&["Basic a2VkYTpvcGVuIHNlc2FtZQ=="]));
    for wrong in [
        "Bearer open sesam", "Bearer Open Sesame", "Bearer open sesame!", "Bearer",
        "Basic open sesame", "Basic b3BlbiBzZXNhbWU=", "open sesame", "",
    ] {
        assert!(!accepts_authorization(&[wrong]), "{wrong}");
    }
    assert!(!accepts_authorization(&[]));
    assert!(!accepts_authorization(&["Bearer open sesame", "Bearer open sesame"]));
}

#[test]
fn debug_output_omits_token() {
    let token = InternalToken::new("open sesame");
    assert_eq!(format!("{token:?}"), "InternalToken");
    assert!(check_internal_token(None, &HeaderMap::new()).is_err());
}
