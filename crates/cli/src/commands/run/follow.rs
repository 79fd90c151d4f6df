//! A run, followed from its start to its end.

use std::time::Duration;

use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_api::execution::StatusView;
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{ExecutionId, ExecutionStatus, Millis};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::site::{self, Site};
use super::{Wish, show};
use crate::config::Config;
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::progress::{Display, Style};
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::{Host, Place, Signals, Watch};

/// How often a terminal is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// Further away than any run lasts: the deadline of a run that has none.
const NEVER: Duration = Duration::from_hours(10 * 365 * 24);

/// Why a run was cancelled from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancelled {
    ByUser,
    ByTime,
}

/// How following a run ended.
enum Followed {
    /// The run ended; it may have been cancelled from here.
    End(Option<Cancelled>),
    /// The user does not want to wait for its end.
    GivenUp,
}

/// Starts a run, follows it and tells what came of it.
pub(super) async fn from_start_to_end(
    wish: &Wish<'_>,
    place: &Place,
    config: &Config,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let mut signals = Signals::new()?;
    let Some(mut site) = site::find(wish, place, config, io, &mut signals).await? else {
        return Ok(Exit::Interrupted);
    };
    let exit = play(wish, place, &mut site, io, &mut signals).await;
    if !signals.are_impatient() {
        // Tools get a moment to end, for which the user need not wait.
        tokio::select! {
            () = site.leave() => {}
            _ = signals.next() => {}
        }
    }
    exit
}

async fn play(
    wish: &Wish<'_>,
    place: &Place,
    site: &mut Site,
    io: &mut Io<'_>,
    signals: &mut Signals,
) -> Result<Exit, Error> {
    let host = site.host();
    let started = start(wish, &host, site).await?;
    if wish.style != Style::Quiet {
        let at = match &host {
            Host::Here(_) => String::new(),
            Host::There(client) => format!(" · at {}", client.base_url()),
        };
        io.talk(format_args!(
            "{} · version {} · run {}{at}",
            visible(started.path.as_str()),
            started.version,
            started.execution_id
        ))?;
    }
    let mut display = Display::new(wish.style, Some(wish.flow));
    let run = Run {
        host: &host,
        execution_id: started.execution_id,
        timeout: wish.timeout,
    };
    let followed = run.follow(&mut display, site, io, signals).await;
    display.finish(io)?;
    let cancelled = match followed? {
        Followed::End(cancelled) => cancelled,
        Followed::GivenUp => return Ok(Exit::Interrupted),
    };
    let status = host.status(started.execution_id).await?;
    let ending = Ending {
        place,
        host: &host,
        status: &status,
    };
    if status.status == ExecutionStatus::Failed && !display.has_told_failure() {
        ending.tell_error(io)?;
    }
    if wish.style != Style::Quiet {
        ending.tell(io)?;
    }
    if let (ExecutionStatus::Completed, Some(result)) = (status.status, &status.result) {
        show(result, wish.form, io)?;
    }
    Ok(exit_of(status.status, cancelled))
}

async fn start(wish: &Wish<'_>, host: &Host, site: &Site) -> Result<ExecuteAnswer, Error> {
    let registered = host.register(&wish.flow.text).await?;
    let request = ExecuteRequest {
        catalog_id: registered.catalog_id,
        path: Some(registered.path),
        payload: Some(wish.payload.clone()),
        execution_pool: site.pool(),
        ..ExecuteRequest::default()
    };
    Ok(host.execute(request).await?)
}

fn exit_of(status: ExecutionStatus, cancelled: Option<Cancelled>) -> Exit {
    match (status, cancelled) {
        (ExecutionStatus::Completed, _) => Exit::Ok,
        (ExecutionStatus::Cancelled, Some(Cancelled::ByUser)) => Exit::Interrupted,
        (ExecutionStatus::Cancelled, Some(Cancelled::ByTime)) => Exit::Timeout,
        (
            ExecutionStatus::Cancelled
            | ExecutionStatus::Failed
            | ExecutionStatus::Pending
            | ExecutionStatus::Running
            | ExecutionStatus::Paused,
            _,
        ) => Exit::Failed,
    }
}

/// A run that goes on.
struct Run<'h> {
    host: &'h Host,
    execution_id: ExecutionId,
    timeout: Option<Millis>,
}

impl Run<'_> {
    async fn follow(
        &self,
        display: &mut Display<'_>,
        site: &mut Site,
        io: &mut Io<'_>,
        signals: &mut Signals,
    ) -> Result<Followed, Error> {
        let patience = self.timeout.map_or(NEVER, Duration::from);
        let deadline = Instant::now() + patience;
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cancelled = None;
        let mut watch = Watch::new(self.host, self.execution_id, None);
        loop {
            tokio::select! {
                events = watch.next() => {
                    let Some(events) = events? else {
                        return Ok(Followed::End(cancelled));
                    };
                    display.take(&events, io)?;
                    if display.end().is_some() {
                        return Ok(Followed::End(cancelled));
                    }
                }
                _ = frames.tick() => display.tick(SystemClock.now(), io)?,
                left = site.worker_left() => {
                    left?;
                    display.finish(io)?;
                    self.without_worker(io).await?;
                }
                _ = signals.next() => {
                    if cancelled == Some(Cancelled::ByUser) {
                        return Ok(Followed::GivenUp);
                    }
                    cancelled = Some(Cancelled::ByUser);
                    display.finish(io)?;
                    io.talk("cancelling the run; press Ctrl-C again to quit at once")?;
                    if !self.cancel("interrupted by the user", signals).await? {
                        return Ok(Followed::GivenUp);
                    }
                }
                () = sleep_until(deadline), if cancelled.is_none() => {
                    cancelled = Some(Cancelled::ByTime);
                    display.finish(io)?;
                    let after = Millis::from(patience).human();
                    io.talk(format_args!("cancelling the run, which is not done after {after}"))?;
                    if !self.cancel("it took longer than --timeout", signals).await? {
                        return Ok(Followed::GivenUp);
                    }
                }
            }
        }
    }

    /// Ends the run unless it has ended: nobody else works for it.
    async fn without_worker(&self, io: &mut Io<'_>) -> Result<(), Error> {
        if self
            .host
            .status(self.execution_id)
            .await?
            .status
            .is_terminal()
        {
            return Ok(());
        }
        io.talk("cancelling the run, since its worker has left: it was asked to")?;
        let reason = "its worker has left";
        Ok(self.host.cancel(self.execution_id, reason).await?)
    }

    /// Cancels the run; `false` if the user does not wait for that.
    async fn cancel(&self, reason: &str, signals: &mut Signals) -> Result<bool, Error> {
        tokio::select! {
            cancelled = self.host.cancel(self.execution_id, reason) => {
                cancelled?;
                Ok(true)
            }
            _ = signals.next() => Ok(false),
        }
    }
}

/// A run that ended, and where.
struct Ending<'e> {
    place: &'e Place,
    host: &'e Host,
    status: &'e StatusView,
}

impl Ending<'_> {
    /// Tells why it failed, where no step is to blame.
    fn tell_error(&self, io: &mut Io<'_>) -> Result<(), Error> {
        let paint = io.err.paint();
        let word = paint.text(palette::BAD, "error");
        let error = self.status.error.as_deref();
        let error = visible(error.unwrap_or("it gave no reason"));
        io.talk(format_args!("{word}: {error}"))?;
        Ok(())
    }

    /// Tells how it ended, and where its log is.
    fn tell(&self, io: &mut Io<'_>) -> Result<(), Error> {
        let paint = io.err.paint();
        let status = self.status;
        let (sign, style, word) = match status.status {
            ExecutionStatus::Completed => ("✓", palette::GOOD, "completed in"),
            ExecutionStatus::Failed => ("✗", palette::BAD, "failed after"),
            ExecutionStatus::Cancelled => ("–", palette::DOUBT, "cancelled after"),
            ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
                ("▸", palette::QUIET, "goes on after")
            }
        };
        let end = status.end_time.unwrap_or(status.start_time);
        let took = end.since(status.start_time).human();
        io.talk(format_args!(
            "{} {word} {took} · run {}",
            paint.text(style, sign),
            status.execution_id
        ))?;
        io.talk(paint.text(palette::QUIET, self.log()))?;
        Ok(())
    }

    /// Where the log is, and how to look at it.
    fn log(&self) -> String {
        let show = format!("noetl runs show {}", self.status.execution_id);
        let shown = self.place.shown();
        match (self.host, self.place) {
            (Host::There(client), _) => {
                format!("  log: {shown} · {show} --server {}", client.base_url())
            }
            (Host::Here(_), Place::Memory) => "  log: not kept".to_owned(),
            (Host::Here(_), Place::File { is_usual: true, .. }) => {
                format!("  log: {shown} · {show}")
            }
            (Host::Here(_), Place::File { .. }) => {
                format!("  log: {shown} · {show} --store sqlite:{shown}")
            }
            (Host::Here(_), Place::Database(_)) => {
                format!("  log: {shown} · noetl server, then {show}")
            }
        }
    }
}
