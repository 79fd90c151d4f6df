//! The streams that a command reads and writes, and the environment that it reads.
//!
//! Commands see only this module: no command touches the streams or the environment of the process
//! itself, so a test can run any of them inside its own. Data goes to `out`, talk goes to `err`.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal as _, Read, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

/// Columns to write within where no terminal says how many it has.
pub const DEFAULT_WIDTH: usize = 100;

/// Fewer columns than this are taken as this many: nothing readable fits into less.
const MIN_WIDTH: usize = 40;

/// The streams of a command.
pub struct Io<'s> {
    /// What `-` reads.
    pub input: &'s mut dyn Read,
    /// Data.
    pub out: Stream<'s>,
    /// Talk.
    pub err: Stream<'s>,
    /// The environment.
    pub env: Env,
}

/// The variables that a command sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// The variables of the process. What is not text is nobody's setting.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// The value of a variable. An empty one counts as absent, as usual in shells and manifests.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// All of them, by name.
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
    /// Lets a flag of the user overrule what was found out about colours.
    pub(crate) fn force_color(&mut self, color: bool) {
        self.out.color = color;
        self.err.color = color;
    }

    /// Tells what the user should know, though it stops nothing.
    pub(crate) fn warn(&mut self, warnings: &[String]) -> io::Result<()> {
        let paint = self.err.paint();
        for warning in warnings {
            let word = paint.text(crate::render::palette::DOUBT, "warning");
            self.talk(format_args!("{word}: {warning}"))?;
        }
        Ok(())
    }

    /// Writes talk, after the data that was written before it.
    pub(crate) fn talk(&mut self, text: impl Display) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.err, "{text}")
    }
}

/// Where text is written, and what can be shown there.
pub struct Stream<'s> {
    writer: &'s mut dyn Write,
    terminal: bool,
    color: bool,
    width: usize,
}

impl<'s> Stream<'s> {
    /// A stream that no terminal stands behind.
    pub fn plain(writer: &'s mut dyn Write) -> Self {
        Self {
            writer,
            terminal: false,
            color: false,
            width: DEFAULT_WIDTH,
        }
    }

    /// A terminal with colours and this many columns.
    pub fn terminal(writer: &'s mut dyn Write, width: usize) -> Self {
        Self {
            writer,
            terminal: true,
            color: true,
            width: width.max(MIN_WIDTH),
        }
    }

    /// Whether a person reads it as it is written.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How many columns there are.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether colours are shown.
    pub fn paint(&self) -> Paint {
        Paint(self.color)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Whether styles become escape codes or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No escape codes.
    pub const PLAIN: Self = Self(false);

    /// Whether styles become escape codes.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// A text in a style.
    pub fn text<T: Display>(self, style: Style, text: T) -> impl Display {
        let style = if self.0 { style } else { Style::new() };
        Painted { style, text }
    }
}

struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:#}", self.style, self.text, self.style)
    }
}

/// Runs `command` on the streams of this process.
pub fn with_process_io<T>(command: impl FnOnce(&mut Io<'_>) -> T) -> T {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let shows_color = |choice: ColorChoice| choice != ColorChoice::Never;
    let out_color = shows_color(AutoStream::choice(&stdout));
    let err_color = shows_color(AutoStream::choice(&stderr));
    let out_terminal = stdout.is_terminal();
    let width =
        terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into());

    let mut input = stdin.lock();
    // Neither is locked for long: in a server, the threads that log write to the same stream.
    let err_terminal = stderr.is_terminal();
    let mut out = BufWriter::new(stdout);
    let mut err = stderr;
    let mut io = Io {
        input: &mut input,
        out: stream(&mut out, out_terminal, out_color, width),
        err: stream(&mut err, err_terminal, err_color, width),
        env: Env::of_process(),
    };
    command(&mut io)
}

fn stream(writer: &mut dyn Write, terminal: bool, color: bool, width: usize) -> Stream<'_> {
    let mut stream = if terminal {
        Stream::terminal(writer, width)
    } else {
        Stream::plain(writer)
    };
    stream.color = color;
    stream
}
