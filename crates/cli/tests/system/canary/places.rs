//! Everywhere that a secret might have got to, and the search there.

use std::path::Path;
use std::process::Command;

use async_nats::jetstream::{self, stream::RawMessageErrorKind};
use futures_util::TryStreamExt as _;
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use noetl_types::ExecutionId;
use tokio_postgres::SimpleQueryMessage;

use crate::house::{Ground, House};

/// How every secret begins and ends. No digest, id or other word holds these letters in a row.
pub(super) const BEGINNING: &str = "zqxvzqxv";
pub(super) const ENDING: &str = "wvjkwvjk";

/// A place, and all that is there.
pub(super) struct Place {
    name: String,
    bytes: Vec<u8>,
    /// What would not be missing there if the search were blind.
    proofs: Vec<String>,
}

impl Place {
    pub(super) fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
            proofs: Vec::new(),
        }
    }

    /// The same where these words must be found.
    pub(super) fn proven_by<S: Into<String>>(
        mut self,
        proofs: impl IntoIterator<Item = S>,
    ) -> Self {
        self.proofs.extend(proofs.into_iter().map(Into::into));
        self
    }

    /// What is wrong with it: secrets that are there, and words that are not.
    pub(super) fn faults(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let lower = text.to_lowercase();
        let mut faults = Vec::new();
        for tag in [BEGINNING, ENDING] {
            let back: String = tag.chars().rev().collect();
            for (text, sign) in [(&*lower, tag.to_owned()), (&*lower, back)]
                .into_iter()
                .chain(packed(tag).map(|sign| (&*text, sign)))
            {
                let found = text.match_indices(&sign).take(3);
                faults.extend(found.map(|(at, _)| {
                    let around = text.floor_char_boundary(at.saturating_sub(120))
                        ..text.ceil_char_boundary((at + 80).min(text.len()));
                    format!("{} holds {sign}: …{}…", self.name, &text[around])
                }));
            }
        }
        let missing = self.proofs.iter().filter(|proof| !text.contains(*proof));
        faults.extend(missing.map(|proof| format!("{} lacks {proof}", self.name)));
        faults
    }

    /// Whether it has all that it must have.
    pub(super) fn is_proven(&self) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        self.proofs.iter().all(|proof| text.contains(proof))
    }
}

/// The characters of a text in base64 that are the same whatever stands around, wherever it begins.
fn packed(tag: &str) -> impl Iterator<Item = String> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..3_usize).map(move |shift| {
        let bytes = std::iter::repeat_n(0, shift).chain(tag.bytes());
        let bits: Vec<bool> = bytes
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
            .collect();
        let sextets = bits.chunks_exact(6).skip((shift * 8).div_ceil(6));
        let number = |bits: &[bool]| bits.iter().fold(0, |sum, bit| sum * 2 + usize::from(*bit));
        sextets
            .map(|bits| char::from(LETTERS[number(bits)]))
            .collect()
    })
}

/// What the commands that people give say of a run, on whichever stream.
pub(super) fn commands(house: &House, url: &str, run: ExecutionId) -> Vec<Place> {
    let id = run.to_string();
    let asked: [&[&str]; 8] = [
        &["runs", "show", &id],
        &["runs", "show", &id, "-o", "json"],
        &["runs", "events", &id, "-o", "jsonl"],
        &["runs", "logs", &id],
        &["runs", "explain", &id],
        &["runs", "tail", &id, "-o", "jsonl"],
        &["replay", &id],
        &["replay", &id, "-o", "json"],
    ];
    let said = |args: &&[&str]| said(house.command().env("NOETL_SERVER_URL", url).args(*args));
    std::thread::scope(|scope| {
        let asking = asked.map(|args| (args, scope.spawn(move || said(&args))));
        let places = asking.map(|(args, saying)| {
            let said = saying.join().expect("it is asked");
            Place::new(format!("noetl {}", args.join(" ")), said)
        });
        places.into()
    })
}

/// What a command says.
pub(super) fn said(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("noetl starts");
    [output.stdout, output.stderr].concat()
}

/// All messages of a broker.
pub(super) async fn messages(nats: &Nats) -> Vec<Place> {
    let client = async_nats::connect(nats.url()).await.expect("a broker");
    let context = jetstream::new(client);
    let names: Vec<String> = context.stream_names().try_collect().await.expect("streams");
    let mut places = Vec::new();
    for name in names {
        let stream = context.get_stream(&name).await.expect("a stream");
        let state = stream.cached_info().state.clone();
        let mut bytes = Vec::new();
        for sequence in state.first_sequence..=state.last_sequence {
            let message = match stream.get_raw_message(sequence).await {
                Ok(message) => message,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => continue,
                Err(error) => panic!("{error}"),
            };
            bytes.extend(format!("{} {:?} ", message.subject, message.headers).bytes());
            bytes.extend(&message.payload);
            bytes.push(b'\n');
        }
        places.push(Place::new(format!("the stream {name}"), bytes));
    }
    places
}

impl Place {
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.name.contains(name)
    }
}

/// Every row of every table; what is binary as far as it can be read.
pub(super) async fn rows(house: &House) -> Place {
    let bytes = match &house.ground {
        Ground::Sqlite => rows_of_file(&house.file()),
        Ground::Postgres(database) => rows_of_database(database).await,
    };
    Place::new("the database", bytes)
}

fn rows_of_file(file: &Path) -> Vec<u8> {
    use rusqlite::types::ValueRef;
    let file = rusqlite::Connection::open(file).expect("a file");
    let mut tables = file
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        .expect("a list");
    let tables = tables.query_map([], |row| row.get::<_, String>(0));
    let mut bytes = Vec::new();
    for table in tables.expect("tables") {
        let query = format!("SELECT * FROM \"{}\"", table.expect("a name"));
        let mut statement = file.prepare(&query).expect("a table");
        let width = statement.column_count();
        let mut rows = statement.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            for column in 0..width {
                match row.get_ref(column).expect("a value") {
                    ValueRef::Text(text) | ValueRef::Blob(text) => bytes.extend(text),
                    ValueRef::Integer(number) => bytes.extend(number.to_string().bytes()),
                    ValueRef::Null | ValueRef::Real(_) => {}
                }
                bytes.push(b'\n');
            }
        }
    }
    bytes
}

async fn rows_of_database(database: &Database) -> Vec<u8> {
    let config = database.config();
    let connecting = tokio_postgres::connect(&config, tokio_postgres::NoTls);
    let (client, connection) = connecting.await.expect("a connection");
    tokio::spawn(connection);
    let tables = "SET bytea_output = 'escape';
        SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
        WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')";
    let mut bytes = Vec::new();
    for table in texts(&client, tables).await {
        let query = format!("SELECT one::text FROM {table} one");
        for row in texts(&client, &query).await {
            bytes.extend(row.bytes());
            bytes.push(b'\n');
        }
    }
    bytes
}

async fn texts(client: &tokio_postgres::Client, query: &str) -> Vec<String> {
    let told = client.simple_query(query).await.expect("rows");
    let rows = told.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    rows.collect()
}

/// Every file below a folder.
pub(super) fn files(folder: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            places.push(Place::new(path.display().to_string(), ""));
            places.extend(files(&path));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).expect("a file");
            places.push(Place::new(path.display().to_string(), bytes));
        }
    }
    places
}
