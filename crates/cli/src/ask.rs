//! Asking before something is done that cannot be undone.

use clap::Args;

use crate::error::Error;
use crate::io::Io;

/// The answer that was given beforehand.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Letters of an answer that are read.
const MAX_ANSWER: usize = 64;

/// Asks whether to do something; `wanted` is what has to be typed. Where nobody can answer, the flag
/// is needed.
pub(crate) fn agreed(
    consent: Consent,
    question: &str,
    wanted: &str,
    io: &mut Io<'_>,
) -> Result<bool, Error> {
    if consent.yes {
        return Ok(true);
    }
    if !io.err.is_terminal() {
        return Err(Error::NotAsked);
    }
    io.talk(format_args!("{question} Type '{wanted}' to go on:"))?;
    let mut answer = Vec::new();
    let mut letter = [0];
    // A line at a time, since what follows it may be meant for somebody else.
    while answer.len() < MAX_ANSWER && io.input.read(&mut letter)? == 1 {
        if letter[0] == b'\n' {
            break;
        }
        answer.push(letter[0]);
    }
    let is_wanted = String::from_utf8_lossy(&answer).trim() == wanted;
    if !is_wanted {
        io.talk("nothing was done")?;
    }
    Ok(is_wanted)
}
