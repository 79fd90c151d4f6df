//! A real NATS server for tests.
//!
//! Each value is a server of its own with JetStream, on a free port of the loopback address, with
//! its data in a temporary folder. It goes away with the value, and with the process however that
//! ends.

use std::io::{self, BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::leash::Leash;

const SUPERVISE: &str = include_str!("nats.sh");

/// A running server.
#[derive(Debug)]
pub struct Nats {
    url: String,
    folder: PathBuf,
    leash: Leash,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum NatsMissing {
    /// The program is not there.
    #[error(
        "nats-server is not on the PATH; install it with `apt-get install nats-server` or \
         `go install github.com/nats-io/nats-server/v2@latest`"
    )]
    NotInstalled,
    /// The server did not start.
    #[error("nats-server did not start:\n{log}")]
    NotStarted {
        /// What it said.
        log: String,
    },
    /// A file or a program could not be used.
    #[error("nats-server cannot be set up")]
    Io(#[from] io::Error),
}

impl Nats {
    /// Starts a server and waits until it answers.
    pub fn start() -> Result<Self, NatsMissing> {
        Self::configured("")
    }

    /// The same with lines of a configuration file, such as `max_payload: 65536`.
    pub fn configured(lines: &str) -> Result<Self, NatsMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let program = program().ok_or(NatsMissing::NotInstalled)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("noetl-nats-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("conf"), lines)?;
        let leash = Leash::run(
            SUPERVISE,
            &[&folder.to_string_lossy(), &program.to_string_lossy()],
        )?;
        for _ in 0..600 {
            if let Some(url) = url_in(&folder)? {
                return Ok(Self { url, folder, leash });
            }
            if folder.join("failed").exists() {
                break;
            }
            // The server tells its port by a file; there is nothing to be woken by.
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        Err(NatsMissing::NotStarted { log })
    }

    /// Ends the server as `kill -9` does. Its data stays.
    pub fn kill(&mut self) -> io::Result<()> {
        self.leash.say("kill")?;
        let down = self.folder.join("down");
        wait_until(|| down.exists())
    }

    /// Starts a killed server again, at the same address with the same data, and waits until it
    /// answers.
    pub fn restart(&mut self) -> io::Result<()> {
        self.leash.say("start")?;
        let address = self.url.trim_start_matches("nats://").to_owned();
        wait_until(|| greets(&address))
    }

    /// Forgets all streams of a killed server.
    pub fn wipe(&mut self) -> io::Result<()> {
        std::fs::remove_dir_all(self.folder.join("data"))
    }

    /// Where clients connect to: `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with the data and the log of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Looks until something is so, with much patience.
fn wait_until(mut is_so: impl FnMut() -> bool) -> io::Result<()> {
    for _ in 0..1200 {
        if is_so() {
            return Ok(());
        }
        // The server tells by files and by listening; there is nothing to be woken by.
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Whether a server says who it is.
fn greets(address: &str) -> bool {
    let Ok(stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut greeting = String::new();
    let read = BufReader::new(stream).read_line(&mut greeting);
    read.is_ok() && greeting.starts_with("INFO ")
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("nats-server"))
        .find(|program| program.exists())
}

/// The address in the file that the server writes once it listens.
fn url_in(folder: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "ports") {
            let text = std::fs::read_to_string(path)?;
            return Ok(url_of(&text));
        }
    }
    Ok(None)
}

/// The first address for clients in a file such as `{"nats":["nats://127.0.0.1:4222"]}`.
fn url_of(ports: &str) -> Option<String> {
    let begin = ports.find("nats://")?;
    let (url, _) = ports.get(begin..)?.split_once('"')?;
    Some(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_once_it_is_whole() {
        let ports = r#"{"nats":["nats://127.0.0.1:41233"],"monitoring":["http://127.0.0.1:8222"]}"#;
        assert_eq!(url_of(ports).as_deref(), Some("nats://127.0.0.1:41233"));
        assert_eq!(url_of(r#"{"nats":["nats://127.0"#), None);
        assert_eq!(url_of(""), None);
    }

    #[test]
    fn a_server_greets_and_is_gone_afterwards() {
        let server = match Nats::start() {
            Ok(server) => server,
            Err(missing @ NatsMissing::NotInstalled) => return println!("skipped: {missing}"),
            Err(error) => panic!("{error}"),
        };
        let address = server.url().trim_start_matches("nats://").to_owned();
        let mut greeting = String::new();
        let stream = TcpStream::connect(&address).unwrap();
        BufReader::new(stream).read_line(&mut greeting).unwrap();
        assert!(greeting.starts_with("INFO "), "{greeting}");
        assert!(greeting.contains(r#""jetstream":true"#), "{greeting}");
        let folder = server.folder().to_owned();
        drop(server);
        assert!(!folder.exists());
        assert!(TcpStream::connect(&address).is_err());
    }

    #[test]
    fn a_server_is_killed_and_comes_back() {
        let mut server = match Nats::configured("max_payload: 65536") {
            Ok(server) => server,
            Err(missing @ NatsMissing::NotInstalled) => return println!("skipped: {missing}"),
            Err(error) => panic!("{error}"),
        };
        let address = server.url().trim_start_matches("nats://").to_owned();
        server.kill().unwrap();
        assert!(TcpStream::connect(&address).is_err());
        server.wipe().unwrap();
        server.restart().unwrap();
        assert!(greets(&address));
    }
}
