//! A page of a list, with the way to the next one in its headers.

use axum::http::header::LINK;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use noetl_api::query::NEXT_CURSOR;
use noetl_types::Text;
use serde::Serialize;

use super::answer::Answer;

/// Answers with a page of what was asked for at an address.
pub(super) fn paged<T: Serialize>(page: T, uri: &Uri, next: Option<&Text>) -> Response {
    let mut response = Answer(page).into_response();
    if let Some(next) = next
        && let Ok(cursor) = HeaderValue::try_from(next.as_str())
        && let Ok(link) = HeaderValue::try_from(next_page(uri, next))
    {
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(NEXT_CURSOR), cursor);
        headers.insert(LINK, link);
    }
    response
}

/// The address of the next page: the same question from another place.
fn next_page(uri: &Uri, cursor: &str) -> String {
    let mut address = format!("<{}?", uri.path());
    let is_place = |pair: &str| pair.starts_with("cursor=") || pair.starts_with("offset=");
    let pairs = uri.query().unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty() && !is_place(pair)) {
        address.push_str(pair);
        address.push('&');
    }
    address.push_str(&format!("cursor={cursor}>; rel=\"next\""));
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_asks_the_same_question() {
        let uri: Uri = "/api/executions?status=FAILED&offset=5&limit=2&cursor=old"
            .parse()
            .unwrap();
        assert_eq!(
            next_page(&uri, "new"),
            "</api/executions?status=FAILED&limit=2&cursor=new>; rel=\"next\""
        );
        let plain: Uri = "/api/executions".parse().unwrap();
        assert_eq!(
            next_page(&plain, "new"),
            "</api/executions?cursor=new>; rel=\"next\""
        );
    }
}
