//! What each colour means, in one place.

use anstyle::{AnsiColor, Style};

/// Names of things.
pub(crate) const NAME: Style = Style::new().bold();
/// What may be overlooked.
pub(crate) const QUIET: Style = Style::new().dimmed();
/// What went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What may be wrong.
pub(crate) const DOUBT: Style = AnsiColor::Yellow.on_default().bold();
/// What to do about it.
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
/// Conditions.
pub(crate) const CONDITION: Style = AnsiColor::Yellow.on_default();
/// Loops and code.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();
/// Joins.
pub(crate) const JOIN: Style = AnsiColor::BrightBlue.on_default();
/// Ways back.
pub(crate) const BACK: Style = AnsiColor::Magenta.on_default();
