use super::*;

#[test]
fn any_listed_scope_is_enough() {
    let developer: Caller = Ok(CallerIdentity::local_developer(LocalClient::ListedPage));
    let either = RouteAccess::AnyOf(&[Scope::Admin, Scope::ExecRead]);
    assert!(either.authorize_caller(&developer).is_ok());
    let result = RouteAccess::AnyOf(&[Scope::Admin]).authorize_caller(&developer);
    assert_eq!(result.unwrap_err().into_response().status(), 403);
    let unauthenticated: Caller = Err(HttpError::new(ErrorCode::Unauthenticated, "no token"));
    assert_eq!(
        either.authorize_caller(&unauthenticated).unwrap_err().into_response().status(),
        401
    );
    assert!(RouteAccess::Open.authorize_caller(&unauthenticated).is_ok());
}

/// A publisher retries after a temporary failure, but stops after an authorization failure.
#[test]
fn internal_routes_report_temporary_failures() {
    let internal = RouteAccess::Internal(Scope::InternalOutbox);
    let status = |code: ErrorCode| {
        let caller: Caller = Err(HttpError::new(code, "reason"));
        let error = internal.authorize_caller(&caller).unwrap_err();
        error.into_response().status().as_u16()
    };
    for (code, expected) in [
        (ErrorCode::Unauthenticated, 403),
        (ErrorCode::TokenExpired, 403),
        (ErrorCode::Forbidden, 403),
        (ErrorCode::RateLimited, 429),
        (ErrorCode::StoreUnavailable, 503),
    ] {
        assert_eq!(status(code), expected, "{code:?}");
    }
}
