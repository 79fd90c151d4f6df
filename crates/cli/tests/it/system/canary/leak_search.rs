//! Content that may contain a leaked secret, and the search in it.

use std::path::Path;
use std::process::Command;

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, stream::RawMessageErrorKind};
use futures_util::TryStreamExt as _;
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use noetl_types::ExecutionId;
use tokio_postgres::SimpleQueryMessage;

use crate::system::deployment::{StoreBackend, TestDeployment};

/// Beginning and end of every secret. No digest, id or other word contains these letter sequences.
pub(super) const SECRET_PREFIX: &str = "zqxvzqxv";
pub(super) const SECRET_SUFFIX: &str = "wvjkwvjk";

/// Digits of the secrets that tasks read as numbers.
pub(super) const SECRET_DIGITS: &str = "917352086";

/// Named content that is searched.
pub(super) struct SearchedContent {
    name: String,
    bytes: Vec<u8>,
    /// Words that the content must contain, to prove that the search is effective.
    required: Vec<String>,
}

impl SearchedContent {
    pub(super) fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), required: Vec::new() }
    }

    /// Adds words that the content must contain.
    pub(super) fn require<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.required.extend(words.into_iter().map(Into::into));
        self
    }

    /// Returns the secrets that were found and the required words that were not.
    pub(super) fn find_leaks(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let lower = text.to_lowercase();
        let mut problems = Vec::new();
        for tag in [SECRET_PREFIX, SECRET_SUFFIX, SECRET_DIGITS] {
            let reversed: String = tag.chars().rev().collect();
            for (text, pattern) in [(&*lower, tag.to_owned()), (&*lower, reversed)]
                .into_iter()
                .chain(base64_fragments(tag).map(|pattern| (&*text, pattern)))
            {
                let matches = text.match_indices(&pattern).take(3);
                problems.extend(matches.map(|(start, _)| {
                    let excerpt = text.floor_char_boundary(start.saturating_sub(120))
                        ..text.ceil_char_boundary((start + 80).min(text.len()));
                    format!("{} contains {pattern}: …{}…", self.name, &text[excerpt])
                }));
            }
        }
        let missing = self.required.iter().filter(|word| !text.contains(*word));
        problems.extend(missing.map(|word| format!("{} lacks {word}", self.name)));
        problems
    }

    /// True if all required words were found.
    pub(super) fn has_required(&self) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        self.required.iter().all(|word| text.contains(word))
    }
}

/// Base64 characters of a text that do not depend on the surrounding bytes, for each alignment.
fn base64_fragments(tag: &str) -> impl Iterator<Item = String> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..3_usize).map(move |shift| {
        let bytes = std::iter::repeat_n(0, shift).chain(tag.bytes());
        let bits: Vec<bool> =
            bytes.flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
        let sextets = bits.chunks_exact(6).skip((shift * 8).div_ceil(6));
        let number = |bits: &[bool]| bits.iter().fold(0, |sum, bit| sum * 2 + usize::from(*bit));
        sextets.map(|bits| char::from(ALPHABET[number(bits)])).collect()
    })
}

/// Returns the output of the CLI commands about a run, from both streams.
pub(super) fn command_outputs(
    deployment: &TestDeployment,
    url: &str,
    run: ExecutionId,
) -> Vec<SearchedContent> {
    let id = run.to_string();
    let commands: [&[&str]; 8] = [
        &["runs", "show", &id],
        &["runs", "show", &id, "-o", "json"],
        &["runs", "events", &id, "-o", "jsonl"],
        &["runs", "logs", &id],
        &["runs", "explain", &id],
        &["runs", "tail", &id, "-o", "jsonl"],
        &["replay", &id],
        &["replay", &id, "-o", "json"],
    ];
    let run = |args: &&[&str]| {
        run_command(deployment.noetl_command().env("NOETL_SERVER_URL", url).args(*args))
    };
    std::thread::scope(|scope| {
        let running = commands.map(|args| (args, scope.spawn(move || run(&args))));
        let contents = running.map(|(args, thread)| {
            let output = thread.join().expect("the command runs");
            SearchedContent::new(format!("noetl {}", args.join(" ")), output)
        });
        contents.into()
    })
}

/// Runs a command and returns its standard output and standard error.
pub(super) fn run_command(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("noetl starts");
    [output.stdout, output.stderr].concat()
}

/// Returns the messages of each stream of a broker.
pub(super) async fn stream_messages(nats: &NatsServer) -> Vec<SearchedContent> {
    let options = nats.login().map_or_else(ConnectOptions::new, |(user, password)| {
        ConnectOptions::with_user_and_password(user, password)
    });
    let client = options.connect(nats.url()).await.expect("a broker");
    let context = jetstream::new(client);
    let names: Vec<String> = context.stream_names().try_collect().await.expect("streams");
    let mut contents = Vec::new();
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
        contents.push(SearchedContent::new(format!("the stream {name}"), bytes));
    }
    contents
}

impl SearchedContent {
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.contains(name)
    }
}

/// Returns every row of every table. Binary values are included as raw bytes.
pub(super) async fn database_rows(deployment: &TestDeployment) -> SearchedContent {
    let bytes = match &deployment.backend {
        StoreBackend::Sqlite => sqlite_rows(&deployment.database_file()),
        StoreBackend::Postgres(database) => postgres_rows(database).await,
    };
    SearchedContent::new("the database", bytes)
}

fn sqlite_rows(file: &Path) -> Vec<u8> {
    use rusqlite::types::ValueRef;
    let connection = rusqlite::Connection::open(file).expect("a file");
    let mut tables =
        connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").expect("a list");
    let tables = tables.query_map([], |row| row.get::<_, String>(0));
    let mut bytes = Vec::new();
    for table in tables.expect("tables") {
        let query = format!("SELECT * FROM \"{}\"", table.expect("a name"));
        let mut statement = connection.prepare(&query).expect("a table");
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

async fn postgres_rows(database: &TestDatabase) -> Vec<u8> {
    let config = database.connection_config();
    let connecting = tokio_postgres::connect(&config, tokio_postgres::NoTls);
    let (client, connection) = connecting.await.expect("a connection");
    tokio::spawn(connection);
    let tables = "SET bytea_output = 'escape';
        SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
        WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')";
    let mut bytes = Vec::new();
    for table in query_texts(&client, tables).await {
        let query = format!("SELECT one::text FROM {table} one");
        for row in query_texts(&client, &query).await {
            bytes.extend(row.bytes());
            bytes.push(b'\n');
        }
    }
    bytes
}

async fn query_texts(client: &tokio_postgres::Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).await.expect("rows");
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    rows.collect()
}

/// Returns every file below a directory.
pub(super) fn files_below(dir: &Path) -> Vec<SearchedContent> {
    let mut contents = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            contents.push(SearchedContent::new(path.display().to_string(), ""));
            contents.extend(files_below(&path));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).expect("a file");
            contents.push(SearchedContent::new(path.display().to_string(), bytes));
        }
    }
    contents
}
