//! Real NATS servers for tests.
//!
//! Each value is a separate server with JetStream, on a free port of the loopback address, with its
//! data in a temporary folder. It is removed with the value, and when the process ends in any way.

use std::io::{self, BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::supervised_process::SupervisedProcess;

const SUPERVISE_SCRIPT: &str = include_str!("nats.sh");

#[derive(Debug)]
pub struct NatsServer {
    url: String,
    login: Option<(String, String)>,
    folder: PathBuf,
    supervisor: SupervisedProcess,
}

/// Reason for which no server is available.
#[derive(Debug, thiserror::Error)]
pub enum NatsMissing {
    /// The program is not installed.
    #[error(
        "nats-server is not on the PATH; install it with `apt-get install nats-server` or \
         `go install github.com/nats-io/nats-server/v2@latest`"
    )]
    NotInstalled,
    #[error("nats-server did not start:\n{log}")]
    NotStarted {
        /// Output of the server.
        log: String,
    },
    /// A file or a program could not be used.
    #[error("nats-server cannot be set up")]
    Io(#[from] io::Error),
}

impl NatsServer {
    /// Starts a server and waits until it responds.
    pub fn start() -> Result<Self, NatsMissing> {
        Self::start_with_config("")
    }

    /// Starts a server with lines of a configuration file, such as `max_payload: 65536`.
    pub fn start_with_config(lines: &str) -> Result<Self, NatsMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let program = find_program().ok_or(NatsMissing::NotInstalled)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("noetl-nats-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("conf"), lines)?;
        let supervisor = SupervisedProcess::run(
            SUPERVISE_SCRIPT,
            &[&folder.to_string_lossy(), &program.to_string_lossy()],
        )?;
        for _ in 0..600 {
            if let Some(url) = read_url(&folder)? {
                return Ok(Self { url, login: None, folder, supervisor });
            }
            if folder.join("failed").exists() {
                break;
            }
            // The server announces its port in a file, so it has to be polled.
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        Err(NatsMissing::NotStarted { log })
    }

    /// Starts a server that requires a user and a password, which the address contains.
    pub fn start_with_login(user: &str, password: &str) -> Result<Self, NatsMissing> {
        let login = format!("authorization: {{ user: {user:?}, password: {password:?} }}");
        let mut server = Self::start_with_config(&login)?;
        server.url = server.url.replace("nats://", &format!("nats://{user}:{password}@"));
        server.login = Some((user.to_owned(), password.to_owned()));
        Ok(server)
    }

    /// User and password of a server that requires them.
    pub fn login(&self) -> Option<(String, String)> {
        self.login.clone()
    }

    /// Kills the server with SIGKILL. Its data is kept.
    pub fn kill_server(&mut self) -> io::Result<()> {
        self.supervisor.send_line("kill")?;
        let down = self.folder.join("down");
        wait_until(|| down.exists())
    }

    /// Starts a killed server again, at the same address with the same data, and waits until it
    /// responds.
    pub fn restart_server(&mut self) -> io::Result<()> {
        self.supervisor.send_line("start")?;
        let address = self.url.rsplit(['/', '@']).next().unwrap_or_default().to_owned();
        wait_until(|| sends_info(&address))
    }

    /// Deletes all streams of a killed server.
    pub fn wipe_data(&mut self) -> io::Result<()> {
        std::fs::remove_dir_all(self.folder.join("data"))
    }

    /// Address for clients: `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Folder with the data and the log of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Polls until a condition is true, with a long timeout.
fn wait_until(mut condition: impl FnMut() -> bool) -> io::Result<()> {
    for _ in 0..1200 {
        if condition() {
            return Ok(());
        }
        // The server signals by files and by listening, so it has to be polled.
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// True if a server sends its INFO line.
fn sends_info(address: &str) -> bool {
    let Ok(stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut greeting = String::new();
    let read = BufReader::new(stream).read_line(&mut greeting);
    read.is_ok() && greeting.starts_with("INFO ")
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("nats-server"))
        .find(|program| program.exists())
}

/// Reads the address from the file that the server writes once it listens.
fn read_url(folder: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ports") {
            let text = std::fs::read_to_string(path)?;
            return Ok(parse_url(&text));
        }
    }
    Ok(None)
}

/// Parses the first client address in a file such as `{"nats":["nats://127.0.0.1:4222"]}`.
fn parse_url(ports: &str) -> Option<String> {
    let start = ports.find("nats://")?;
    let (url, _) = ports.get(start..)?.split_once('"')?;
    Some(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_address_only_when_complete() {
        let ports = r#"{"nats":["nats://127.0.0.1:41233"],"monitoring":["http://127.0.0.1:8222"]}"#;
        assert_eq!(parse_url(ports).as_deref(), Some("nats://127.0.0.1:41233"));
        assert_eq!(parse_url(r#"{"nats":["nats://127.0"#), None);
        assert_eq!(parse_url(""), None);
    }

    #[test]
    fn server_responds_and_is_removed_on_drop() {
        let server = match NatsServer::start() {
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
    fn killed_server_restarts() {
        let mut server = match NatsServer::start_with_config("max_payload: 65536") {
            Ok(server) => server,
            Err(missing @ NatsMissing::NotInstalled) => return println!("skipped: {missing}"),
            Err(error) => panic!("{error}"),
        };
        let address = server.url().trim_start_matches("nats://").to_owned();
        server.kill_server().unwrap();
        assert!(TcpStream::connect(&address).is_err());
        server.wipe_data().unwrap();
        server.restart_server().unwrap();
        assert!(sends_info(&address));
    }
}
