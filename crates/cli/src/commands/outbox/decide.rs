//! What becomes of dead rows: they are looked at, agreed to, and sent out again or given up.

use std::io::Write as _;

use noetl_api::internal::{OutboxChanged, OutboxIds, OutboxLine};
use noetl_types::OutboxId;

use super::{DecideArgs, table};
use crate::ask::agreed;
use crate::commands::platform::Operated;
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::render::words::counted;

/// Rows of a page, and of a call.
const AT_ONCE: u32 = 500;

/// Pages that are looked at for rows that are dead.
const MAX_PAGES: usize = 200;

/// Rows that are shown before a question; of more it is said how many they are.
const SHOWN: usize = 20;

#[derive(Debug, Clone, Copy)]
pub(super) enum Decision {
    Replay,
    Discard,
}

impl Decision {
    fn question(self, rows: &str, url: &str) -> String {
        match self {
            Self::Replay => format!("Send {rows} out again, at {url}?"),
            Self::Discard => format!("Give up {rows} for good, told to nobody, at {url}?"),
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Replay => "sent out again",
            Self::Discard => "given up",
        }
    }
}

/// Which rows are meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meant<'r> {
    These(&'r [OutboxId]),
    All,
}

impl Meant<'_> {
    fn has(self, row: &OutboxLine) -> bool {
        match self {
            Self::These(rows) => rows.contains(&row.outbox_id),
            Self::All => true,
        }
    }

    /// A page begins behind a row, and so the first one behind the row before all of these.
    fn before(self) -> Option<OutboxId> {
        let Self::These(rows) = self else {
            return None;
        };
        let first = rows.iter().min()?;
        OutboxId::new(first.get() - 1).ok()
    }

    /// Whether none of them is behind a row.
    fn is_before(self, row: OutboxId) -> bool {
        match self {
            Self::These(rows) => rows.iter().all(|one| *one <= row),
            Self::All => false,
        }
    }
}

/// What was found of the rows that are meant.
struct Looked {
    /// Those that are dead and wait for a decision, by id.
    dead: Vec<OutboxLine>,
    /// Whether all of them were looked at.
    is_all: bool,
}

pub(super) fn decide(
    meant: Meant<'_>,
    args: &DecideArgs,
    decision: Decision,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let at = Operated::find(&args.settings.given, io)?;
    let output = args.output;
    let rows = match meant {
        Meant::These(rows) if args.consent.yes && !args.dry_run => rows.to_vec(),
        Meant::These(_) | Meant::All => {
            let Looked { dead, is_all } = look(meant, &at)?;
            if !is_all {
                let text = format!(
                    "there are more dead rows than {}: not all were looked at",
                    MAX_PAGES * at_once()
                );
                io.warn(&[text])?;
            }
            if args.dry_run {
                output.list(&dead, |_| table(&dead), io)?;
                return Ok(Exit::Ok);
            }
            let named = match meant {
                Meant::These(rows) => rows.to_vec(),
                Meant::All => dead.iter().map(|row| row.outbox_id).collect(),
            };
            if dead.is_empty() {
                if named.is_empty() {
                    io.talk("there are no dead rows")?;
                }
                let done = Done {
                    asked: named.len(),
                    changed: 0,
                };
                return done.tell(decision, output, io);
            }
            show(&dead, io)?;
            let question = decision.question(&counted(dead.len(), "dead row"), at.url());
            if !agreed(args.consent, &question, "yes", io)? {
                return Ok(Exit::Failed);
            }
            named
        }
    };
    let mut done = Done::default();
    let ended = rows
        .chunks(at_once())
        .try_for_each(|some| -> Result<(), Error> {
            let ids = OutboxIds {
                outbox_ids: some.to_vec(),
            };
            let changed = at.ask(async |client| match decision {
                Decision::Replay => client.replay_outbox(&ids).await,
                Decision::Discard => client.discard_outbox(&ids).await,
            })?;
            done.asked += some.len();
            done.changed += changed.changed;
            Ok(())
        });
    // Also where some could not be: the others are what they are now.
    let exit = done.tell(decision, output, io)?;
    ended.map(|()| exit)
}

fn at_once() -> usize {
    usize::try_from(AT_ONCE).unwrap_or(usize::MAX)
}

/// Looks for rows among those that are dead.
fn look(meant: Meant<'_>, at: &Operated) -> Result<Looked, Error> {
    let (mut dead, mut after) = (Vec::new(), meant.before());
    for _ in 0..MAX_PAGES {
        let page = at.ask(async |client| client.outbox(Some("dead"), after, AT_ONCE).await)?;
        let is_meant = |row: &OutboxLine| row.discarded_at.is_none() && meant.has(row);
        dead.extend(page.rows.into_iter().filter(is_meant));
        after = page.next_after;
        if after.is_none_or(|row| meant.is_before(row)) {
            return Ok(Looked { dead, is_all: true });
        }
    }
    Ok(Looked {
        dead,
        is_all: false,
    })
}

/// Shows whoever decides what it is about.
fn show(dead: &[OutboxLine], io: &mut Io<'_>) -> Result<(), Error> {
    let first = dead.get(..SHOWN).unwrap_or(dead);
    let text = table(first).render(false, true, &io.err);
    io.talk(text.trim_end())?;
    match dead.len() - first.len() {
        0 => {}
        more => io.talk(format_args!("and {more} more; see them with: --dry-run"))?,
    }
    Ok(())
}

/// What became of the rows that a server was asked about.
#[derive(Debug, Default)]
struct Done {
    asked: usize,
    changed: u64,
}

impl Done {
    fn tell(&self, decision: Decision, output: Output, io: &mut Io<'_>) -> Result<Exit, Error> {
        let Self { asked, changed } = *self;
        if !output.is_table() {
            output.thing(&OutboxChanged { changed }, io)?;
        }
        let changed = usize::try_from(changed).unwrap_or(usize::MAX);
        if changed > 0 && output.is_table() {
            writeln!(io.out, "{} {}", counted(changed, "row"), decision.done())?;
        }
        let others = asked.saturating_sub(changed);
        if others > 0 {
            io.talk(format_args!(
                "{others} of {asked} rows were not dead and stay as they are; see those that are with: \
                 noetl outbox dead"
            ))?;
        }
        Ok(if changed == 0 && asked > 0 {
            Exit::NotFound
        } else {
            Exit::Ok
        })
    }
}
