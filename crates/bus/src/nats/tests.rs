//! The connection against a real server.

use std::time::Duration;

use bytes::Bytes;
use noetl_testkit::nats::Nats;

use super::*;

const PLAN: StreamPlan = StreamPlan {
    name: "test",
    subjects: &["test", "test.>"],
    max_age: Duration::from_hours(1),
    duplicate_window: Duration::from_mins(2),
};

async fn linked(server: &Nats) -> Link {
    let settings = LinkSettings {
        url: server.url().into(),
        name: "test".into(),
        ..LinkSettings::default()
    };
    let mut link = Link::open(settings).await.unwrap();
    while !link.facts().is_connected {
        link.changed().await;
    }
    link
}

fn message(subject: &str, id: &str, body: impl Into<Bytes>) -> Outgoing {
    Outgoing {
        subject: subject.into(),
        message_id: id.into(),
        body: body.into(),
    }
}

#[tokio::test]
async fn messages_are_stored_once_in_their_order() {
    let server = Nats::configured("max_payload: 4096").unwrap();
    let link = linked(&server).await;
    assert_eq!(link.facts().max_payload, 4096);
    let made = link.ensure(&PLAN).await.unwrap();
    assert_eq!(
        link.ensure(&PLAN).await.unwrap().created_at,
        made.created_at
    );
    let many: Vec<_> = (0..2500)
        .map(|number| message("test.a", &format!("m{number}"), "x"))
        .collect();
    for (index, stored) in link.publish("test", many).await.into_iter().enumerate() {
        let sequence = u64::try_from(index).unwrap() + 1;
        let is_duplicate = false;
        assert_eq!(
            stored,
            Ok(Stored {
                sequence,
                is_duplicate
            })
        );
    }
    let large = vec![b'x'; 5000];
    let mixed = vec![
        message("test.a", "m7", "x"),
        message("test.a", "large", large),
        message("te st", "strange", "x"),
        message("test.b", "good", "x"),
    ];
    let outcomes = link.publish("test", mixed).await;
    let (sequence, is_duplicate) = (8, true);
    assert_eq!(
        outcomes[0],
        Ok(Stored {
            sequence,
            is_duplicate
        })
    );
    assert_eq!(outcomes[1], Err(PublishFailed::TooLarge));
    assert!(
        matches!(outcomes[2], Err(PublishFailed::Impossible(_))),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[3].as_ref().map(|stored| stored.sequence), Ok(2501));
    let ids = link.message_ids("test", 2499, 2501).await.unwrap();
    assert_eq!(ids, ["m2498", "m2499", "good"].map(str::to_owned).into());
    let elsewhere = link.publish("test", vec![message("other", "o", "x")]).await;
    assert_eq!(elsewhere, [Err(PublishFailed::NoStream)]);
}

#[tokio::test]
async fn answers_come_under_the_numbers_of_their_messages() {
    let server = Nats::configured("max_payload: 4096").unwrap();
    let link = linked(&server).await;
    link.ensure(&PLAN).await.unwrap();
    let mut pipe = link.pipe("test").await.unwrap();
    for number in 1..=2500 {
        let id = format!("m{number}");
        pipe.send(number, message("test.a", &id, "x"))
            .await
            .unwrap();
    }
    let mut heard = Vec::new();
    while heard.len() < 2500 {
        let (number, outcome) = pipe.answer().await.unwrap();
        // One after the other was sent, so that is how they are stored.
        let stored = outcome.unwrap();
        assert_eq!((stored.sequence, stored.is_duplicate), (number, false));
        heard.push(number);
        heard.extend(pipe.answered().map(|(number, _)| number));
    }
    heard.sort_unstable();
    assert!(heard.into_iter().eq(1..=2500));
    let stored = |sequence, is_duplicate| {
        Ok(Stored {
            sequence,
            is_duplicate,
        })
    };
    pipe.send(7, message("test.a", "m7", "x")).await.unwrap();
    assert_eq!(pipe.answer().await, Some((7, stored(7, true))));
    pipe.send(8, message("other", "o", "x")).await.unwrap();
    let nowhere = Some((8, Err(PublishFailed::NoStream)));
    assert_eq!(pipe.answer().await, nowhere);
    let large = pipe.send(9, message("test.a", "l", vec![b'x'; 5000])).await;
    assert_eq!(large, Err(PublishFailed::TooLarge));
    let strange = pipe.send(9, message("te st", "s", "x")).await;
    assert!(matches!(strange, Err(PublishFailed::Impossible(_))));
}

/// What is meant for one stream is not kept by another one that has its subjects by now.
#[tokio::test]
async fn a_message_goes_into_no_other_stream_than_its_own() {
    let server = Nats::start().unwrap();
    let link = linked(&server).await;
    link.ensure(&PLAN).await.unwrap();
    let mut other = link.pipe("elsewhere").await.unwrap();
    other.send(1, message("test.a", "e", "x")).await.unwrap();
    let elsewhere = Some((1, Err(PublishFailed::NoStream)));
    assert_eq!(other.answer().await, elsewhere);
    let stream = link.stream("test").await.unwrap();
    assert_eq!(stream.map(|stream| stream.messages), Some(0));
}

#[tokio::test]
async fn a_new_stream_is_as_it_was_planned() {
    let server = Nats::start().unwrap();
    let link = linked(&server).await;
    let made = link.ensure(&PLAN).await.unwrap();
    let as_planned = (PLAN.max_age, PLAN.duplicate_window, true);
    let is = |made: &StreamFacts| (made.max_age, made.duplicate_window, made.is_on_disk);
    assert_eq!(is(&made), as_planned);
    // What others made is used as it is.
    let otherwise = StreamPlan {
        max_age: Duration::from_hours(2),
        duplicate_window: Duration::from_mins(1),
        ..PLAN
    };
    assert_eq!(is(&link.ensure(&otherwise).await.unwrap()), as_planned);
}

#[tokio::test]
async fn a_stream_that_is_there_is_used_and_given_what_it_lacks() {
    let server = Nats::start().unwrap();
    let link = linked(&server).await;
    let narrow = StreamPlan {
        subjects: &["test.a.>"],
        ..PLAN
    };
    let made = link.ensure(&narrow).await.unwrap();
    let ensured = link.ensure(&PLAN).await.unwrap();
    assert_eq!(ensured.created_at, made.created_at);
    let outcomes = link.publish("test", vec![message("test", "m", "x")]).await;
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(link.stream("other").await, Ok(None));
}

#[tokio::test]
async fn a_server_that_comes_later_or_again_is_found() {
    let mut server = Nats::start().unwrap();
    server.kill().unwrap();
    let settings = LinkSettings {
        url: server.url().into(),
        name: "test".into(),
        ..LinkSettings::default()
    };
    let mut link = Link::open(settings).await.unwrap();
    let unsure = link.publish("test", vec![message("test", "m", "x")]).await;
    assert!(
        matches!(unsure[0], Err(PublishFailed::Unsure(_))),
        "{unsure:?}"
    );
    server.restart().unwrap();
    while !link.facts().is_connected {
        link.changed().await;
    }
    assert!(link.facts().version.is_some());
    link.ensure(&PLAN).await.unwrap();
}

#[tokio::test]
async fn others_are_heard_and_oneself_is_not() {
    let server = Nats::start().unwrap();
    let (one, other) = (linked(&server).await, linked(&server).await);
    one.ensure(&PLAN).await.unwrap();
    let mut listening = other.listen("test.>").await.unwrap();
    // The subscription is at the server once something has made the way there and back behind it.
    other.stream("test").await.unwrap();
    other
        .publish("test", vec![message("test.a", "own", "own")])
        .await;
    one.publish("test", vec![message("test.a", "other", "other")])
        .await;
    assert_eq!(listening.next().await, Some(Bytes::from("other")));
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    let settings = LinkSettings {
        url: "nats://[::1".into(),
        ..LinkSettings::default()
    };
    assert!(Link::open(settings).await.is_err());
}
