//! Responses with a page of a list, and the link to the next page in their headers.

use axum::http::header::LINK;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use noetl_api::query::NEXT_CURSOR_HEADER;
use noetl_types::Text;
use serde::Serialize;

use super::json_response::JsonResponse;

/// Creates the response for a page, with the headers of the next page if there is one.
pub(super) fn page_response<T: Serialize>(page: T, uri: &Uri, next: Option<&Text>) -> Response {
    let mut response = JsonResponse(page).into_response();
    if let Some(next) = next
        && let Ok(cursor) = HeaderValue::try_from(next.as_str())
        && let Ok(link) = HeaderValue::try_from(next_page_link(uri, next))
    {
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(NEXT_CURSOR_HEADER), cursor);
        headers.insert(LINK, link);
    }
    response
}

/// Value of the `Link` header: the same query with another cursor.
fn next_page_link(uri: &Uri, cursor: &str) -> String {
    let mut link = format!("<{}?", uri.path());
    let is_position = |pair: &str| pair.starts_with("cursor=") || pair.starts_with("offset=");
    let pairs = uri.query().unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty() && !is_position(pair)) {
        link.push_str(pair);
        link.push('&');
    }
    link.push_str(&format!("cursor={cursor}>; rel=\"next\""));
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_link_keeps_query() {
        let uri: Uri = "/api/executions?status=FAILED&offset=5&limit=2&cursor=old".parse().unwrap();
        assert_eq!(
            next_page_link(&uri, "new"),
            "</api/executions?status=FAILED&limit=2&cursor=new>; rel=\"next\""
        );
        let plain: Uri = "/api/executions".parse().unwrap();
        assert_eq!(next_page_link(&plain, "new"), "</api/executions?cursor=new>; rel=\"next\"");
    }
}
