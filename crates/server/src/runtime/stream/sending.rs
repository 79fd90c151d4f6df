//! Events go to the broker one behind the other, and what it says of each is heard.

use std::ops::RangeInclusive;
use std::time::Duration;
use std::vec::IntoIter;

use bytes::Bytes;
use noetl_bus::nats::{Answer, Link, Outgoing, Pipe, PublishFailed};
use noetl_store::{FeedItem, FeedMessage, Quarantined, Unreadable};
use noetl_types::json::to_canonical;
use noetl_types::{QuarantineId, Text};
use tokio::time::{Instant, timeout_at};

use super::flight::{Flight, Flying};
use super::publisher::Publisher;
use super::witness::Witness;
use super::{STREAM, Trouble};

/// How long the broker may take to acknowledge the first message that is open.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the broker counts of a message besides its body: the headers, and some room.
const HEADERS: usize = 512;

/// Messages on their way.
pub(super) struct Sending {
    pub(super) flight: Flight,
    pub(super) witness: Witness,
    pipe: Pipe,
    /// What the broker says that it had already, by its number in the stream, until it was looked for
    /// there.
    duplicates: Vec<u64>,
}

impl Sending {
    pub(super) async fn begin(link: &Link) -> Result<Self, Trouble> {
        Ok(Self {
            flight: Flight::new(),
            witness: Witness::default(),
            pipe: link.pipe(STREAM).await?,
            duplicates: Vec::new(),
        })
    }

    /// The next that the broker says of a message that is on its way. Whoever stops waiting loses
    /// nothing.
    pub(super) async fn answer(&mut self) -> Result<Answer, Trouble> {
        let Some(since) = self.flight.waits_since() else {
            return std::future::pending().await;
        };
        let answer = timeout_at(since + PATIENCE, self.pipe.answer()).await;
        answer
            .map_err(|_| Trouble::Silence)?
            .ok_or(Trouble::NoConnection)
    }
}

impl Publisher<'_> {
    /// Sends events for as long as there is room for them.
    pub(super) async fn fill(
        &self,
        sending: &mut Sending,
        waiting: &mut IntoIter<FeedItem>,
    ) -> Result<(), Trouble> {
        let now = Instant::now();
        while sending.flight.has_room()
            && let Some(item) = waiting.next()
        {
            let message = match item {
                Ok(message) => message,
                Err(unreadable) => {
                    self.pass_by(sending, &unreadable).await?;
                    continue;
                }
            };
            let is_large = message.body.bytes.len() + HEADERS > self.link.max_payload();
            let number = sending.flight.add(message, is_large, now);
            self.send(sending, number).await?;
        }
        Ok(())
    }

    /// Takes an answer, and all others that are there.
    pub(super) async fn hear(&self, sending: &mut Sending, first: Answer) -> Result<(), Trouble> {
        let (mut next, mut stored) = (Some(first), Stored::default());
        let mut outcome = Ok(());
        while let Some(answer) = next.take() {
            outcome = self.take(sending, answer, &mut stored).await;
            if outcome.is_ok() {
                next = sending.pipe.answered();
            }
        }
        if let Some(sequence) = stored.last {
            sending.witness.heard(sequence, self.core.clock.now());
        }
        self.streaming.facts.note(|seen| {
            seen.published += stored.messages;
            seen.duplicates += stored.duplicates;
            seen.by_reference += stored.by_reference;
        });
        outcome
    }

    async fn take(
        &self,
        sending: &mut Sending,
        (number, outcome): Answer,
        stored: &mut Stored,
    ) -> Result<(), Trouble> {
        let Some(flying) = sending.flight.get(number) else {
            return Ok(());
        };
        match outcome {
            Ok(ack) => {
                stored.messages += 1;
                stored.by_reference += u64::from(flying.by_reference);
                if ack.is_duplicate {
                    stored.duplicates += 1;
                    sending.duplicates.push(ack.sequence);
                } else {
                    stored.last = Some(ack.sequence);
                }
                sending.flight.close(number, Instant::now());
                Ok(())
            }
            Err(failed) => {
                if self.may_be_sent_otherwise(sending, number, &failed).await? {
                    self.send(sending, number).await?;
                }
                Ok(())
            }
        }
    }

    async fn send(&self, sending: &mut Sending, number: u64) -> Result<(), Trouble> {
        while let Some(flying) = sending.flight.get(number) {
            let sent = sending.pipe.send(number, self.outgoing(flying)).await;
            let Err(failed) = sent else {
                return Ok(());
            };
            if !self.may_be_sent_otherwise(sending, number, &failed).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The message of an event: itself, or what refers to it.
    fn outgoing(&self, flying: &Flying) -> Outgoing {
        let Flying {
            message,
            by_reference,
            ..
        } = flying;
        Outgoing {
            subject: message.subject.to_string(),
            message_id: message.id(self.log_epoch).to_string(),
            body: if *by_reference {
                Bytes::from(to_canonical(&message.body.reference()))
            } else {
                message.body.bytes.clone()
            },
        }
    }

    /// Whether a message that the broker did not take can go out as a reference. One that can never be
    /// published is put aside, so that it stops no other.
    async fn may_be_sent_otherwise(
        &self,
        sending: &mut Sending,
        number: u64,
        failed: &PublishFailed,
    ) -> Result<bool, Trouble> {
        match failed {
            PublishFailed::Unsure(error) => return Err(error.clone().into()),
            PublishFailed::NoStream => return Err(Trouble::NoStream),
            PublishFailed::TooLarge if sending.flight.refer(number, Instant::now()) => {
                return Ok(true);
            }
            PublishFailed::TooLarge | PublishFailed::Impossible(_) => {}
        }
        if let Some(flying) = sending.flight.get(number) {
            let message_id = flying.message.id(self.log_epoch);
            let why = failed.to_string();
            tracing::error!(%message_id, why, "an event cannot be published and is put aside");
            self.park(message_id, "unpublishable", why.into()).await?;
        }
        sending.flight.close(number, Instant::now());
        Ok(false)
    }

    /// Puts an event aside that has no message.
    async fn pass_by(&self, sending: &mut Sending, event: &Unreadable) -> Result<(), Trouble> {
        let Unreadable { feed, why } = event;
        let row = format!("position {} of log {}", feed.position, self.log_epoch.get());
        tracing::error!(row, %why, "an event cannot be read and is put aside");
        self.park(row.into(), "unreadable", why.clone()).await?;
        sending.flight.skip(*feed);
        Ok(())
    }

    async fn park(&self, what: Text, code: &str, why: Text) -> Result<(), Trouble> {
        let now = self.core.clock.now();
        let quarantine_id = self.core.ids.mint::<QuarantineId>(now);
        let refused = Quarantined {
            quarantine_id: quarantine_id.map_err(|_| Trouble::NoIds)?,
            source: "stream".into(),
            raw: what,
            code: code.into(),
            message: why,
            created_at: now,
        };
        self.core.store.quarantine(vec![refused]).await?;
        self.streaming.facts.note(|seen| seen.parked += 1);
        Ok(())
    }

    /// Looks whether the broker still has what it says it had already: it knows an id for a while even
    /// where its message is gone.
    pub(super) async fn must_have_duplicates(&self, sending: &mut Sending) -> Result<(), Trouble> {
        let Some(oldest) = sending.duplicates.iter().min() else {
            return Ok(());
        };
        let stream = self.link.stream(STREAM).await?;
        if stream.is_none_or(|stream| stream.first > *oldest) {
            return Err(Trouble::Remembered);
        }
        sending.duplicates.clear();
        Ok(())
    }

    /// Publishes events in their order that a part of the stream lacks; all of them are at the broker, or
    /// put aside, afterwards. Says how many the broker had already, in other parts of the stream.
    pub(super) async fn publish(
        &self,
        messages: Vec<FeedMessage>,
        lacking: &RangeInclusive<u64>,
    ) -> Result<usize, Trouble> {
        let mut sending = Sending::begin(self.link).await?;
        let mut waiting = messages.into_iter().map(Ok).collect::<Vec<_>>().into_iter();
        loop {
            self.fill(&mut sending, &mut waiting).await?;
            if sending.flight.is_empty() && waiting.len() == 0 {
                break;
            }
            let answer = sending.answer().await?;
            self.hear(&mut sending, answer).await?;
        }
        let had = sending.duplicates.len();
        if sending
            .duplicates
            .iter()
            .any(|number| lacking.contains(number))
        {
            // It was not there a moment ago: the broker only remembers its id.
            return Err(Trouble::Remembered);
        }
        self.must_have_duplicates(&mut sending).await?;
        Ok(had)
    }
}

/// What the broker was heard to have.
#[derive(Debug, Default)]
struct Stored {
    messages: u64,
    duplicates: u64,
    by_reference: u64,
    /// The number of the last one that it had not already.
    last: Option<u64>,
}
