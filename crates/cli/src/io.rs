//! Streams and environment of a command.
//!
//! Commands use only this module and never the streams or the environment of the process, so tests
//! can run any command in their own process. Data is written to `out`, messages to `err`.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal as _, Read, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

use crate::render::palette;
use crate::render::terminal_escape::TerminalEscaper;

/// Width of a stream that is not a terminal, in columns.
pub const DEFAULT_WIDTH: usize = 100;

/// Minimum width. Narrower terminals are treated as this wide, since nothing readable fits.
const MIN_TERMINAL_WIDTH: usize = 40;

pub struct Io<'s> {
    /// Input read for `-`.
    pub input: &'s mut dyn Read,
    /// Data output.
    pub out: OutputStream<'s>,
    /// Messages.
    pub err: OutputStream<'s>,
    /// Environment variables.
    pub env: Env,
    /// True if only the requested data is printed.
    pub quiet: bool,
}

/// Environment variables visible to a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// Variables of the process. Variables that are not valid UTF-8 are ignored.
    pub fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Value of a variable. An empty value counts as absent, as is usual in shells and manifests.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All variables by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(variables.map(|(n, v)| (n.into(), v.into())).collect())
    }
}

impl Io<'_> {
    /// Overrides the detected color support.
    pub(crate) fn force_color(&mut self, color: bool) {
        self.out.color = color;
        self.err.color = color;
    }

    pub(crate) fn print_warning(&mut self, text: impl Display) -> io::Result<()> {
        let label = self.err.paint().text(palette::CAUTION, "warning");
        self.print_message(format_args!("{label}: {text}"))
    }

    pub(crate) fn print_warnings(&mut self, warnings: &[String]) -> io::Result<()> {
        warnings.iter().try_for_each(|warning| self.print_warning(warning))
    }

    /// Prints a message that is not part of the requested data, unless in quiet mode.
    pub(crate) fn print_note(&mut self, text: impl Display) -> io::Result<()> {
        if self.quiet { Ok(()) } else { self.print_message(text) }
    }

    /// Prints a tip in a muted style, unless in quiet mode.
    pub(crate) fn print_tip(&mut self, text: impl Display) -> io::Result<()> {
        let tip = self.err.paint().text(palette::MUTED, text);
        self.print_note(tip)
    }

    /// Prints a message, after the data written before it.
    pub(crate) fn print_message(&mut self, text: impl Display) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.err, "{text}")
    }
}

/// Output stream with its terminal properties. On a terminal, it escapes the control characters of
/// the data that is written to it.
pub struct OutputStream<'s> {
    writer: &'s mut dyn Write,
    /// `None` if the stream is not a terminal.
    terminal: Option<TerminalEscaper>,
    color: bool,
    width: usize,
}

impl<'s> OutputStream<'s> {
    /// Stream without a terminal.
    pub fn plain(writer: &'s mut dyn Write) -> Self {
        Self { writer, terminal: None, color: false, width: DEFAULT_WIDTH }
    }

    /// Terminal with colors and the given width.
    pub fn terminal(writer: &'s mut dyn Write, width: usize) -> Self {
        let terminal = Some(TerminalEscaper::default());
        Self { writer, terminal, color: true, width: width.max(MIN_TERMINAL_WIDTH) }
    }

    /// True if the stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Writes a control sequence unchanged and then a text, at once to avoid flicker.
    pub(crate) fn write_control(&mut self, sequence: &str, text: &[u8]) -> io::Result<()> {
        let text = match &mut self.terminal {
            Some(escaper) => escaper.escape(text),
            None => text.to_vec(),
        };
        self.writer.write_all(&[sequence.as_bytes(), &text].concat())
    }

    /// Width in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Color support of the stream.
    pub fn paint(&self) -> ColorPaint {
        ColorPaint(self.color)
    }
}

impl Write for OutputStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(escaper) = &mut self.terminal else {
            return self.writer.write(bytes);
        };
        self.writer.write_all(&escaper.escape(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(escaper) = &mut self.terminal {
            self.writer.write_all(&escaper.escape_rest())?;
        }
        self.writer.flush()
    }
}

/// Converts styles to escape codes if colors are enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColorPaint(bool);

impl ColorPaint {
    /// Without escape codes.
    pub const PLAIN: Self = Self(false);

    /// True if styles produce escape codes.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// Text in a style.
    pub fn text<T: Display>(self, style: Style, text: T) -> impl Display {
        let style = if self.0 { style } else { Style::new() };
        StyledDisplay { style, text }
    }
}

struct StyledDisplay<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for StyledDisplay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:#}", self.style, self.text, self.style)
    }
}

pub fn with_process_io<T>(command: impl FnOnce(&mut Io<'_>) -> T) -> T {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let shows_color = |choice: ColorChoice| choice != ColorChoice::Never;
    let out_color = shows_color(AutoStream::choice(&stdout));
    let err_color = shows_color(AutoStream::choice(&stderr));
    let out_terminal = stdout.is_terminal();
    let width =
        terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into());

    let mut input = stdin.lock();
    // The streams are not locked, since logging threads of a server write to the same stream.
    let err_terminal = stderr.is_terminal();
    let mut out = BufWriter::new(stdout);
    let mut err = stderr;
    let mut io = Io {
        input: &mut input,
        out: process_stream(&mut out, out_terminal, out_color, width),
        err: process_stream(&mut err, err_terminal, err_color, width),
        env: Env::from_process(),
        quiet: false,
    };
    command(&mut io)
}

fn process_stream(
    writer: &mut dyn Write,
    terminal: bool,
    color: bool,
    width: usize,
) -> OutputStream<'_> {
    let mut stream =
        if terminal { OutputStream::terminal(writer, width) } else { OutputStream::plain(writer) };
    stream.color = color;
    stream
}
