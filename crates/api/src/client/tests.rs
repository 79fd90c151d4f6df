use noetl_types::{ByteSize, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::live::News;
use super::{BearerToken, Client, ClientRefused, ClientSettings};
use crate::execute::ExecuteRequest;
use crate::query::{EventsQuery, ExecutionsQuery, Order};
use crate::result::PutResult;
use crate::{ApiError, WorkerApi as _};

/// A server that answers one request with these bytes, and tells what it was asked.
async fn answering(answer: &'static str) -> (Client, JoinHandle<String>) {
    answering_with(answer, ClientSettings::default()).await
}

async fn answering_with(
    answer: &'static str,
    settings: ClientSettings,
) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let mut length = 0;
        while !asked[..length].windows(4).any(|end| end == b"\r\n\r\n") {
            length += stream.read(&mut asked[length..]).await.unwrap();
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        asked.truncate(length);
        String::from_utf8(asked).unwrap()
    });
    (Client::new(&base, settings).unwrap(), server)
}

fn execution_id() -> ExecutionId {
    ExecutionId::new(7).unwrap()
}

#[tokio::test]
async fn a_problem_is_a_refusal_with_its_wait() {
    let (client, _server) = answering(
        "HTTP/1.1 503 x\r\ncontent-type: application/problem+json\r\nretry-after: 3\r\n\
         connection: close\r\n\r\n\
         {\"type\":\"urn:noetl:error:store_unavailable\",\"title\":\"Store is not available\",\
         \"status\":503,\"detail\":\"later\",\"code\":\"store_unavailable\",\"request_id\":\"r\",\
         \"error\":\"later\"}",
    )
    .await;
    let refused = client.status(execution_id()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StoreUnavailable));
    assert!(refused.is_retryable());
    let ApiError::Refused {
        problem,
        retry_after,
    } = refused
    else {
        panic!("not refused")
    };
    assert_eq!(problem.detail, "later");
    assert_eq!(retry_after, Some(Millis::from_secs(3)));
}

#[tokio::test]
async fn what_stands_in_front_of_the_server_is_told_from_it() {
    let (client, _server) =
        answering("HTTP/1.1 502 x\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\noops")
            .await;
    let error = client.status(execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    let (client, _server) =
        answering("HTTP/1.1 404 x\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\noops")
            .await;
    let error = client.status(execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_cut_off_may_have_taken_effect() {
    let (client, _server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
    let error = client.status(execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    assert!(error.is_retryable());
}

/// Whoever came back with the id of before would be told of the same gap for ever.
#[tokio::test]
async fn a_gap_is_told_once_and_gone_on_behind() {
    let (client, _server) = answering(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         id: 2:0.0\nevent: gap\ndata: {\"event\":\"gap\",\"first_available\":\"2:0.7\"}\n\n\
         : still here\n\n",
    )
    .await;
    let mut live = client.follow_all(Some("1:9.4".to_owned())).await.unwrap();
    let told = live.next().await.unwrap_err();
    assert!(matches!(told, ApiError::Unreadable(_)), "{told}");
    assert_eq!(live.last_id(), Some("2:0.0"));
    // Then only the end of the connection is left to tell.
    loop {
        match live.next().await {
            Ok(News::Events(events)) => assert_eq!(events, []),
            Ok(News::End) => panic!("nothing has ended"),
            Err(error) => {
                assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
                return;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_of_another_shape_cannot_be_read() {
    let (client, _server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let error = client.status(execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreadable(_)), "{error}");
}

#[tokio::test]
async fn answers_have_a_bound() {
    let settings = || ClientSettings {
        max_answer: ByteSize::from_bytes(3),
        ..ClientSettings::default()
    };
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nnu\r\n2\r\nll\r\n0\r\n\r\n",
    ] {
        let (client, _server) = answering_with(answer, settings()).await;
        let error = client.status(execution_id()).await.unwrap_err();
        assert_eq!(
            error,
            ApiError::Unreadable("it has more than 3 bytes".into())
        );
    }
}

/// What is large takes its time, whatever a usual call may take.
#[tokio::test]
async fn a_large_body_has_more_time() {
    const BYTES: usize = 16 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut came, mut part) = (0, vec![0; 1 << 16]);
        while came < BYTES {
            match stream.read(&mut part).await {
                Ok(length) if length > 0 => came += length,
                _ => return false,
            }
        }
        true
    });
    let settings = ClientSettings {
        timeout: Millis::from_ms(1),
        ..ClientSettings::default()
    };
    let client = Client::new(&base, settings).unwrap();
    let data = PutResult::new("n", Json::from("x".repeat(BYTES)));
    // It is not answered, but nobody cut it off before it was there.
    assert!(client.put_result(execution_id(), data, "k").await.is_err());
    assert!(server.await.unwrap());
}

#[test]
fn the_more_comes_the_longer_it_may_take() {
    assert_eq!(super::call::grace(0), Millis::ZERO);
    assert_eq!(super::call::grace((1 << 20) - 1), Millis::ZERO);
    assert_eq!(super::call::grace(72 << 20), Millis::from_secs(144));
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&base, ClientSettings::default()).unwrap();
    let error = client.status(execution_id()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)), "{error}");
    assert!(!error.to_string().contains("http://"), "{error}");
}

#[tokio::test]
async fn queries_and_identity_go_along() {
    let settings = ClientSettings {
        token: Some(BearerToken::new("noetl_x_y")),
        ..ClientSettings::default()
    };
    let (client, server) = answering_with(
        "HTTP/1.1 200 OK\r\nx-next-cursor: abc\r\ncontent-length: 2\r\n\r\n[]",
        settings,
    )
    .await;
    let query = ExecutionsQuery {
        status: Some(ExecutionStatus::Failed),
        path: Some("a b/ö&".into()),
        ..ExecutionsQuery::default()
    };
    let page = client.executions(&query).await.unwrap();
    assert_eq!(page.next_cursor.unwrap(), "abc");
    let asked = server.await.unwrap();
    assert!(
        asked.starts_with(
            "GET /api/executions?status=FAILED&path=a+b%2F%C3%B6%26&limit=50 HTTP/1.1"
        ),
        "{asked}"
    );
    assert!(asked.contains("authorization: Bearer noetl_x_y"), "{asked}");
}

#[tokio::test]
async fn the_names_of_parameters_are_those_of_the_route() {
    let (client, server) =
        answering("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"events\":[]}").await;
    let query = EventsQuery {
        event_type: Some(noetl_types::EventType::CallDone.into()),
        order: Order::Desc,
        ..EventsQuery::default()
    };
    client.events(execution_id(), &query).await.unwrap();
    let asked = server.await.unwrap();
    assert!(
        asked.starts_with(
            "GET /api/executions/7/events?type=call.done&order=desc&limit=50 HTTP/1.1"
        ),
        "{asked}"
    );
}

#[tokio::test]
async fn what_happens_once_says_its_key() {
    let (client, server) = answering(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
         {\"ref\":\"noetl://execution/7/result/n/8\",\"store\":\"kv\",\
         \"scope\":\"execution\",\"bytes\":1,\"sha256\":\"ab\"}",
    )
    .await;
    let data = PutResult::new("n", Json::from(1));
    let kept = client.put_result(execution_id(), data, "7:4:a:1").await;
    assert_eq!(kept.unwrap().bytes, 1);
    let asked = server.await.unwrap();
    assert!(asked.starts_with("PUT /api/result/7 HTTP/1.1"), "{asked}");
    assert!(asked.contains("idempotency-key: 7:4:a:1"), "{asked}");

    let (client, server) = answering(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
         {\"execution_id\":\"9\",\"status\":\"started\",\"commands_generated\":1,\
         \"path\":\"a/b\",\"version\":2,\"catalog_id\":\"5\"}",
    )
    .await;
    let started = client.start(ExecuteRequest::default(), "k").await.unwrap();
    assert_eq!(started.execution_id, ExecutionId::new(9).unwrap());
    let asked = server.await.unwrap();
    assert!(asked.starts_with("POST /api/execute HTTP/1.1"), "{asked}");
    assert!(asked.contains("idempotency-key: k"), "{asked}");
    let refused = client.start(ExecuteRequest::default(), "a\nb").await;
    assert!(matches!(refused, Err(ApiError::Unreadable(_))));
}

#[test]
fn addresses_that_are_none() {
    for (wrong, reason) in [
        ("localhost:8082", "it begins with neither"),
        ("ftp://localhost", "it begins with neither"),
        ("", "relative URL"),
        ("http://localhost?x", "it has a `?`"),
    ] {
        let refused = Client::new(wrong, ClientSettings::default()).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let refused = Client::new("http://u:secret@localhost", ClientSettings::default()).unwrap_err();
    assert!(matches!(refused, ClientRefused::BadUrl { .. }));
    assert!(!refused.to_string().contains("secret"), "{refused}");
}

#[test]
fn a_client_can_be_made_for_both_schemes_and_behind_a_prefix() {
    for base in ["https://example.org", "http://[::1]:8082/noetl/"] {
        let client = Client::new(base, ClientSettings::default()).unwrap();
        assert_eq!(client.base_url(), base.trim_end_matches('/'));
    }
}

#[test]
fn a_token_shows_nothing_and_fits_a_header() {
    assert_eq!(
        format!("{:?}", BearerToken::new("secret")),
        "BearerToken(..)"
    );
    let settings = ClientSettings {
        token: Some(BearerToken::new("a\nb")),
        ..ClientSettings::default()
    };
    let refused = Client::new("http://localhost", settings).unwrap_err();
    assert_eq!(refused, ClientRefused::Token);
}
