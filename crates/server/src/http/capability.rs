//! The capability in front of a path: `/w/<capability>/api/…` stands for `/api/…`.
//!
//! It is taken out of a request before anything else sees it, so that no log, trail, count or error
//! can tell it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::AUTHORIZATION;
use axum::http::uri::PathAndQuery;

use super::identity::Shown;

/// What such a path begins with.
const MARK: &str = "/w/";
/// Where a request ends up that is about nothing of the API. No route has this path.
const NOWHERE: &str = "/w";

/// Takes the capability out of a request, which is left with the path that it stands for.
///
/// It says alone what may be done: a token beside it is taken away too.
pub(super) fn take(request: &mut Request<Body>) -> Option<Shown> {
    let (shown, rest) = split(request.uri())?;
    *request.uri_mut() = rest;
    request.headers_mut().remove(AUTHORIZATION);
    Some(shown)
}

fn split(uri: &Uri) -> Option<(Shown, Uri)> {
    let path = uri.path().strip_prefix(MARK)?;
    let end = path.find('/').unwrap_or(path.len());
    let (shown, rest) = path.split_at(end);
    let rest = if rest.starts_with("/api/") {
        rest
    } else {
        NOWHERE
    };
    let rest = match uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    // It is a part of a path that was read already, so it can be read.
    parts.path_and_query = PathAndQuery::try_from(rest).ok();
    let rest = Uri::from_parts(parts).unwrap_or(Uri::from_static(NOWHERE));
    Some((Shown::new(shown), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str) -> Option<(String, String)> {
        let (shown, rest) = split(&uri.parse().unwrap())?;
        Some((shown.reveal().to_owned(), rest.to_string()))
    }

    #[test]
    fn a_capability_stands_before_a_path_of_the_api() {
        let some = |shown: &str, rest: &str| Some((shown.to_owned(), rest.to_owned()));
        assert_eq!(of("/w/abc/api/events"), some("abc", "/api/events"));
        assert_eq!(of("/w/abc/api/x?y=%2F&z"), some("abc", "/api/x?y=%2F&z"));
        assert_eq!(of("/w//api/events"), some("", "/api/events"));
        assert_eq!(
            of("http://host:1/w/abc/api/events"),
            some("abc", "http://host:1/api/events")
        );
    }

    #[test]
    fn it_leads_nowhere_else() {
        for rest in [
            "",
            "/",
            "/livez",
            "/api",
            "/noetl/events",
            "/w/x/api/events",
        ] {
            let found = of(&format!("/w/abc{rest}"));
            assert_eq!(
                found,
                Some(("abc".to_owned(), NOWHERE.to_owned())),
                "{rest}"
            );
        }
        for other in ["/", "/w", "/api/w/abc/api/events", "/wx/abc/api/events"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
