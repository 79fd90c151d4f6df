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
