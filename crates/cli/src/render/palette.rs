//! Meanings of colors and styles.

use anstyle::{AnsiColor, Style};

/// Names.
pub(crate) const NAME: Style = Style::new().bold();
/// Less important text.
pub(crate) const MUTED: Style = Style::new().dimmed();
/// Success.
pub(crate) const SUCCESS: Style = AnsiColor::Green.on_default();
/// Errors.
pub(crate) const FAILURE: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
pub(crate) const CAUTION: Style = AnsiColor::Yellow.on_default().bold();
/// Help texts.
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const CONDITION: Style = AnsiColor::Yellow.on_default();
/// Loops and code.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();
pub(crate) const JOIN: Style = AnsiColor::BrightBlue.on_default();
/// Arcs that lead back.
pub(crate) const BACK_ARC: Style = AnsiColor::Magenta.on_default();
