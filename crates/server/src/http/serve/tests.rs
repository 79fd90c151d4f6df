use noetl_api::Problem;

use super::TOO_MANY_CONNECTIONS;

#[test]
fn too_many_connections_response_is_a_problem() {
    let text = str::from_utf8(TOO_MANY_CONNECTIONS).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = format!("content-length: {}", body.len());
    assert!(head.contains(&length), "{length}");
    let problem: Problem = serde_json::from_str(body).unwrap();
    let code = problem.known_code().unwrap();
    assert_eq!((code.http_status(), code.title()), (503, &*problem.title));
}
