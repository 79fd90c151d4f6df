use noetl_types::{ByteSize, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::event_stream::StreamUpdate;
use super::{BearerToken, Client, ClientBuildError, ClientSettings};
use crate::execute::ExecuteRequest;
use crate::query::{EventOrder, EventsQuery, ExecutionsQuery};
use crate::result::ResultPutRequest;
use crate::{ApiError, WorkerApi as _};

/// Starts a server that responds to one request with the given bytes. The handle returns the
/// request.
async fn serve_once(response: &'static str) -> (Client, JoinHandle<String>) {
    serve_once_with(response, ClientSettings::default()).await
}

async fn serve_once_with(
    response: &'static str,
    settings: ClientSettings,
) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let mut length = 0;
        while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
            length += stream.read(&mut request[length..]).await.unwrap();
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        request.truncate(length);
        String::from_utf8(request).unwrap()
    });
    (Client::new(&base, settings).unwrap(), server)
}

fn test_execution_id() -> ExecutionId {
    ExecutionId::new(7).unwrap()
}

#[tokio::test]
async fn problem_response_has_code_and_retry_after() {
    let (client, _server) = serve_once(
        "HTTP/1.1 503 x\r\ncontent-type: application/problem+json\r\nretry-after: 3\r\n\
         connection: close\r\n\r\n\
         {\"type\":\"urn:noetl:error:store_unavailable\",\"title\":\"Store is not available\",\
         \"status\":503,\"detail\":\"later\",\"code\":\"store_unavailable\",\"request_id\":\"r\",\
         \"error\":\"later\"}",
    )
    .await;
    let refused = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StoreUnavailable));
    assert!(refused.is_retryable());
    let ApiError::Refused { problem, retry_after } = refused else { panic!("not refused") };
    assert_eq!(problem.detail, "later");
    assert_eq!(retry_after, Some(Millis::from_secs(3)));
}

#[tokio::test]
async fn proxy_errors_are_not_server_errors() {
    let (client, _server) =
        serve_once("HTTP/1.1 502 x\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\noops")
            .await;
    let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    let (client, _server) =
        serve_once("HTTP/1.1 404 x\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\noops")
            .await;
    let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn truncated_response_is_retryable() {
    let (client, _server) = serve_once("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
    let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    assert!(error.is_retryable());
}

/// A client that resumed from the previous id would receive the same gap forever.
#[tokio::test]
async fn stream_resumes_after_gap() {
    let (client, _server) = serve_once(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         id: 2:0.0\nevent: gap\ndata: {\"event\":\"gap\",\"first_available\":\"2:0.7\"}\n\n\
         : still here\n\n",
    )
    .await;
    let mut stream = client.follow_all_executions(Some("1:9.4".to_owned())).await.unwrap();
    let gap = stream.next().await.unwrap_err();
    assert!(matches!(gap, ApiError::Unreadable(_)), "{gap}");
    assert_eq!(stream.last_id(), Some("2:0.0"));
    // After the gap only the end of the connection follows.
    loop {
        match stream.next().await {
            Ok(StreamUpdate::Events(events)) => assert_eq!(events, []),
            Ok(StreamUpdate::End) => panic!("nothing has ended"),
            Err(error) => {
                assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
                return;
            }
        }
    }
}

#[tokio::test]
async fn rejects_response_of_wrong_shape() {
    let (client, _server) = serve_once("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn response_size_is_limited() {
    let settings = || ClientSettings {
        max_response_size: ByteSize::from_bytes(3),
        ..ClientSettings::default()
    };
    for response in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nnu\r\n2\r\nll\r\n0\r\n\r\n",
    ] {
        let (client, _server) = serve_once_with(response, settings()).await;
        let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
        assert_eq!(error, ApiError::Unreadable("the response exceeds 3 bytes".into()));
    }
}

/// The timeout grows with the size of the body.
#[tokio::test]
async fn large_request_body_extends_timeout() {
    const BYTES: usize = 16 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
        while received < BYTES {
            match stream.read(&mut buffer).await {
                Ok(length) if length > 0 => received += length,
                _ => return false,
            }
        }
        true
    });
    let settings = ClientSettings { timeout: Millis::from_ms(1), ..ClientSettings::default() };
    let client = Client::new(&base, settings).unwrap();
    let data = ResultPutRequest::new("n", Json::from("x".repeat(BYTES)));
    // There is no response, but the body was not cut off.
    assert!(client.put_result(test_execution_id(), data, "k").await.is_err());
    assert!(server.await.unwrap());
}

#[test]
fn timeout_grows_with_body_size() {
    assert_eq!(super::call::transfer_allowance(0), Millis::ZERO);
    assert_eq!(super::call::transfer_allowance((1 << 20) - 1), Millis::ZERO);
    assert_eq!(super::call::transfer_allowance(72 << 20), Millis::from_secs(144));
}

#[tokio::test]
async fn refused_connection_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&base, ClientSettings::default()).unwrap();
    let error = client.get_execution_status(test_execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    assert!(!error.to_string().contains("http://"), "{error}");
}

#[tokio::test]
async fn sends_query_and_bearer_token() {
    let settings =
        ClientSettings { token: Some(BearerToken::new("noetl_x_y")), ..ClientSettings::default() };
    let (client, server) = serve_once_with(
        "HTTP/1.1 200 OK\r\nx-next-cursor: abc\r\ncontent-length: 2\r\n\r\n[]",
        settings,
    )
    .await;
    let query = ExecutionsQuery {
        status: Some(ExecutionStatus::Failed),
        path: Some("a b/ö&".into()),
        ..ExecutionsQuery::default()
    };
    let page = client.list_executions(&query).await.unwrap();
    assert_eq!(page.next_cursor.unwrap(), "abc");
    let request = server.await.unwrap();
    assert!(
        request.starts_with(
            "GET /api/executions?status=FAILED&path=a+b%2F%C3%B6%26&limit=50 HTTP/1.1"
        ),
        "{request}"
    );
    assert!(request.contains("authorization: Bearer noetl_x_y"), "{request}");
}

#[tokio::test]
async fn query_parameters_match_route() {
    let (client, server) =
        serve_once("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"events\":[]}").await;
    let query = EventsQuery {
        event_type: Some(noetl_types::EventType::CallDone.into()),
        order: EventOrder::Desc,
        ..EventsQuery::default()
    };
    client.list_events(test_execution_id(), &query).await.unwrap();
    let request = server.await.unwrap();
    assert!(
        request.starts_with(
            "GET /api/executions/7/events?type=call.done&order=desc&limit=50 HTTP/1.1"
        ),
        "{request}"
    );
}

#[tokio::test]
async fn sends_idempotency_key() {
    let (client, server) = serve_once(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
         {\"ref\":\"noetl://execution/7/result/n/8\",\"store\":\"kv\",\
         \"scope\":\"execution\",\"bytes\":1,\"sha256\":\"ab\"}",
    )
    .await;
    let data = ResultPutRequest::new("n", Json::from(1));
    let stored = client.put_result(test_execution_id(), data, "7:4:a:1").await;
    assert_eq!(stored.unwrap().bytes, 1);
    let request = server.await.unwrap();
    assert!(request.starts_with("PUT /api/result/7 HTTP/1.1"), "{request}");
    assert!(request.contains("idempotency-key: 7:4:a:1"), "{request}");

    let (client, server) = serve_once(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
         {\"execution_id\":\"9\",\"status\":\"started\",\"commands_generated\":1,\
         \"path\":\"a/b\",\"version\":2,\"catalog_id\":\"5\"}",
    )
    .await;
    let started = client.start_execution(ExecuteRequest::default(), "k").await.unwrap();
    assert_eq!(started.execution_id, ExecutionId::new(9).unwrap());
    let request = server.await.unwrap();
    assert!(request.starts_with("POST /api/execute HTTP/1.1"), "{request}");
    assert!(request.contains("idempotency-key: k"), "{request}");
    let refused = client.start_execution(ExecuteRequest::default(), "a\nb").await;
    assert!(matches!(refused, Err(ApiError::Unreadable(_))));
}

#[test]
fn rejects_invalid_base_urls() {
    for (url, reason) in [
        ("localhost:8082", "it must begin with"),
        ("ftp://localhost", "it must begin with"),
        ("", "relative URL"),
        ("http://localhost?x", "it must not contain `?`"),
    ] {
        let error = Client::new(url, ClientSettings::default()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let error = Client::new("http://u:secret@localhost", ClientSettings::default()).unwrap_err();
    assert!(matches!(error, ClientBuildError::BadUrl { .. }));
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn accepts_both_schemes_and_path_prefix() {
    for base in ["https://example.org", "http://[::1]:8082/noetl/"] {
        let client = Client::new(base, ClientSettings::default()).unwrap();
        assert_eq!(client.base_url(), base.trim_end_matches('/'));
    }
}

#[test]
fn token_is_hidden_in_debug_and_validated() {
    assert_eq!(format!("{:?}", BearerToken::new("secret")), "BearerToken(..)");
    let settings =
        ClientSettings { token: Some(BearerToken::new("a\nb")), ..ClientSettings::default() };
    let error = Client::new("http://localhost", settings).unwrap_err();
    assert_eq!(error, ClientBuildError::InvalidToken);
}
