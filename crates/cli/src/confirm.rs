//! Confirmation of operations that cannot be undone.

use clap::Args;

use crate::error::{Error, Result};
use crate::io::Io;

/// Flag that confirms in advance.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Maximum bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64;

/// Asks for confirmation: the user must type `expected`. Without a terminal, `--yes` is required.
pub(crate) fn confirm(
    args: ConfirmArgs,
    question: &str,
    expected: &str,
    io: &mut Io<'_>,
) -> Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if !io.err.is_terminal() {
        let message = "confirmation is required, but standard error is not a terminal";
        return Err(Error::usage(message).with_help("confirm with --yes"));
    }
    io.print_message(format_args!("{question} Type '{expected}' to continue:"))?;
    let mut answer = Vec::new();
    let mut byte = [0];
    // Reads only one line, since the rest of the input may be for another program.
    while answer.len() < MAX_ANSWER_BYTES && io.input.read(&mut byte)? == 1 {
        if byte[0] == b'\n' {
            break;
        }
        answer.push(byte[0]);
    }
    let is_confirmed = String::from_utf8_lossy(&answer).trim() == expected;
    if !is_confirmed {
        io.print_message("cancelled; nothing was changed")?;
    }
    Ok(is_confirmed)
}
