//! Paths of a secret: every tool kind, and every outcome of its call.
//!
//! In the text of a task `<S>` is the secret, `<K>` the secret inside of an expression, `<M>` a
//! marker word that only the task produces, and `<N>` the name of the path. A task outputs the
//! secret and the marker together, so the secret could leak wherever the marker is found.

/// One task that receives a secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct SecretPath {
    pub(super) name: &'static str,
    /// YAML of the task.
    pub(super) tool: &'static str,
    /// Additional keys of the step.
    pub(super) step: &'static str,
    /// Type and data of the credential, where `<V>` is the secret.
    pub(super) credential: (&'static str, &'static str),
    pub(super) fails: bool,
    /// True if the marker appears where the secret would.
    pub(super) shows_marker: bool,
    /// True if the run ends with this step.
    pub(super) is_last: bool,
}

const fn printing_path(name: &'static str, tool: &'static str) -> SecretPath {
    SecretPath {
        name,
        tool,
        step: "",
        credential: ("bearer", r#"{"token":"<V>"}"#),
        fails: false,
        shows_marker: true,
        is_last: false,
    }
}

const fn failing_path(name: &'static str, tool: &'static str) -> SecretPath {
    SecretPath { fails: true, ..printing_path(name, tool) }
}

impl SecretPath {
    /// The output of the task contains none of its input.
    const fn without_marker(self) -> Self {
        Self { shows_marker: false, ..self }
    }

    const fn with_credential(self, kind: &'static str, data: &'static str) -> Self {
        Self { credential: (kind, data), ..self }
    }

    const fn with_step_keys(self, step: &'static str) -> Self {
        Self { step, ..self }
    }

    const fn as_last(self) -> Self {
        Self { is_last: true, ..self }
    }
}

/// Adds a policy that retries a failed task once.
macro_rules! with_retry {
    ($tool:literal) => {
        concat!(
            $tool,
            "\nspec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 0.01 } }] } }"
        )
    };
}

/// Playbooks with the paths of their steps.
pub(super) const PLAYBOOK_GROUPS: [(&str, &[SecretPath]); 17] = [
    ("noop", NOOP),
    ("python", PYTHON),
    ("shell", SHELL),
    ("http", HTTP),
    ("postgres", POSTGRES),
    ("sqlite", SQLITE),
    ("transfer", TRANSFER),
    ("script", SCRIPT),
    ("mcp", MCP),
    ("artifact", ARTIFACT),
    ("playbook", PLAYBOOK),
    ("container", CONTAINER),
    ("nats", NATS),
    ("lacking", LACKING),
    ("keychain", KEYCHAIN),
    ("cursor", CURSOR),
    ("end", END),
];

const NOOP: &[SecretPath] = &[
    printing_path(
        "noop_gives",
        r#"kind: noop
result: { plain: "<S>", list: ["<S>", { deep: "x<S>" }], word: "<M>" }"#,
    ),
    printing_path(
        "noop_derives",
        r#"kind: noop
result:
  up: "{{ <K> | upper }}"
  packed: "{{ <K> | b64encode }}"
  url: "{{ <K> | urlencode }}"
  back: "{{ <K> | reverse }}"
  json: "{{ {'a': <K>} | tojson }}"
  word: "<M>""#,
    ),
    printing_path(
        "noop_keys",
        r#"{ kind: noop, result: { inner: { "{{ <K> | upper }}": 1 }, word: "<M>" } }"#,
    ),
    printing_path(
        "noop_sets",
        r#"{ kind: noop, result: 1, set: { ctx.kept: "<S>", ctx.word: "<M>", iter.kept: "<S>" } }"#,
    ),
    failing_path("noop_broken", r#"{ kind: noop, result: "{{ <K> + 1 }}" }"#).without_marker(),
    printing_path(
        "noop_counts",
        r#"kind: noop
result: { pin: "{{ keychain.<N>.pin | int }}", price: "{{ keychain.<N>.price }}", word: "<M>" }
set: { ctx.pin: "{{ keychain.<N>.pin | int }}" }"#,
    )
    .with_credential(NUMBERS.0, NUMBERS.1),
    printing_path(
        "noop_ruled",
        r#"kind: noop
result: "<M>"
spec: { policy: { rules: [{ when: "{{ <K> == 'x' }}", then: { do: retry } }, { else: { then: { do: continue, set: { ctx.ruled: "<S> <M>" } } } }] } }"#,
    ),
    printing_path(
        "noop_selected",
        r#"kind: noop
result: { a: { b: "<S>", c: "<M>" } }
output: { inline_max_bytes: 0, select: [{ path: "$.a.b", as: part }, { path: "$.a.c", as: word }] }"#,
    ),
    printing_path("noop_loops", r#"{ kind: noop, result: ["<S>", "<M>", "{{ iter.n }}"] }"#)
        .with_step_keys("loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }"),
];

/// A PIN and a price, which tasks read as numbers.
const NUMBERS: (&str, &str) =
    ("bearer", r#"{"token":"<V>","pin":"00<DIGITS>","price":<DIGITS>.25}"#);

const PYTHON: &[SecretPath] = &[
    printing_path(
        "python_counts",
        r#"kind: python
input: { pin: "{{ keychain.<N>.pin }}", price: "{{ keychain.<N>.price }}", word: "<M>" }
code: |
  print(word, int(pin), float(price))
  result = {"pin": int(pin), "float": float(pin), "price": float(price), word: str(int(pin))}"#,
    )
    .with_credential(NUMBERS.0, NUMBERS.1),
    printing_path(
        "python_returns",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'result = {"got": token, "also": [{word: word, token: 1}]}'"#,
    ),
    failing_path(
        "python_raises",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(f"cannot log in with {token} {word}")'"#,
    ),
    failing_path(
        "python_tries_again",
        with_retry!(
            r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(word + token)'"#
        ),
    ),
    failing_path(
        "python_talks_long",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(word + (" " + token) * 1000)'"#,
    ),
    printing_path(
        "python_prints",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import sys
  print(token, word)
  print(token, word, file=sys.stderr)
  result = word"#,
    ),
    printing_path(
        "python_packs",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import base64, json, urllib.parse
  pack = lambda text: base64.b64encode(text.encode()).decode()
  result = {
      "packed": [pack("x" * n + token + "y" * m) for n in range(3) for m in range(3)],
      "url": [urllib.parse.quote(token + " ?"), urllib.parse.quote_plus(token, safe="")],
      "json": json.dumps(json.dumps({token: [token]})),
      "lines": base64.encodebytes(("y" * 50 + token).encode()).decode(),
      "word": word,
  }"#,
    ),
    printing_path(
        "python_escapes",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import json, urllib.parse
  once = json.dumps(token)
  result = [token, repr(token), once, json.dumps(once), json.dumps(token, ensure_ascii=False),
            urllib.parse.quote(token), urllib.parse.quote_plus(token), urllib.parse.quote(token, safe="@:/+%\" "), word]"#,
    )
    .with_credential("bearer", r#"{"token":"<V> \"é\\/+%\t<V>"}"#),
    printing_path(
        "python_is_big",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'result = {"first": word, "rows": [f"{n} {token} {word}" for n in range(20000)]}'"#,
    ),
    failing_path(
        "python_is_late",
        r#"kind: python
timeout: 1
input: { token: "<S>" }
code: |
  import time
  print(token, flush=True)
  time.sleep(60)"#,
    )
    .without_marker(),
    failing_path(
        "python_dies",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import os, sys
  print(token, word, file=sys.stderr, flush=True)
  os.kill(os.getpid(), 9)"#,
    )
    .without_marker(),
];

const SHELL: &[SecretPath] = &[
    printing_path("shell_says", r#"{ kind: shell, command: "echo '<S>' <M>" }"#),
    failing_path(
        "shell_fails",
        r#"{ kind: shell, command: "echo '<S>' <M>; echo '<S>' <M> >&2; exit 3" }"#,
    ),
    failing_path(
        "shell_tries_again",
        with_retry!(
            r#"kind: shell
command: "echo '<S>' <M> >&2; exit 1""#
        ),
    ),
    printing_path(
        "shell_derives",
        r#"{ kind: shell, command: "echo <M>; printf %s '{{ <K> | upper }}'" }"#,
    ),
    printing_path(
        "shell_packs",
        r#"{ kind: shell, command: "printf %060d%s 0 '<S>' | base64; echo <M>" }"#,
    ),
    printing_path(
        "shell_shows_env",
        r#"{ kind: shell, env: { TOKEN: "<S>", WORD: "<M>" }, command: "env" }"#,
    ),
    printing_path(
        "shell_is_cut",
        r#"{ kind: shell, command: "echo <M> >&2; head -c 1048560 /dev/zero | tr '\\0' x; printf %s '<S>'" }"#,
    ),
    failing_path(
        "shell_is_late",
        r#"{ kind: shell, timeout: 1, command: "echo '<S>'; sleep 60" }"#,
    )
    .without_marker(),
    failing_path("shell_dies", r#"{ kind: shell, command: "echo '<S>' <M> >&2; kill -9 $$" }"#),
    failing_path("shell_is_named", r#"{ kind: shell, shell: "/no/<S>/<M>", command: "true" }"#)
        .without_marker(),
];

const HTTP: &[SecretPath] = &[
    printing_path(
        "http_sends",
        r#"kind: http
method: POST
url: "<URL>/echo"
headers: { X-Token: "<S>" }
json: { token: "<S>", word: "<M>" }"#,
    ),
    printing_path("http_bearer", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#),
    printing_path("http_basic", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#)
        .with_credential("basic", r#"{"username":"somebody","password":"<V>"}"#),
    printing_path("http_api_key", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#)
        .with_credential("api_key", r#"{"api_key":"<V>"}"#),
    printing_path(
        "http_asks",
        r#"{ kind: http, url: "<URL>/echo", params: { token: "<S>", word: "<M>" } }"#,
    )
    .with_credential("bearer", r#"{"token":"<V>/é+%:@ <V>"}"#),
    printing_path(
        "http_form",
        r#"{ kind: http, method: POST, url: "<URL>/echo?<M>", form: { token: "<S>" } }"#,
    )
    .with_credential("bearer", r#"{"token":"<V>/é+%:@ <V>"}"#),
    printing_path(
        "http_packs",
        r#"{ kind: http, url: "<URL>/echo?word=<M>", headers: { X-Token: "<S>" }, response_type: binary }"#,
    )
    .without_marker(),
    printing_path("http_moves", r#"{ kind: http, url: "<URL>/moved?<S>-<M>" }"#),
    failing_path(
        "http_refused",
        r#"{ kind: http, url: "<URL>/status/500?<S>-<M>", headers: { X-Token: "<S>" } }"#,
    ),
    failing_path("http_busy", with_retry!(r#"kind: http
url: "<URL>/status/503?<S>-<M>""#)),
    failing_path("http_nobody", r#"{ kind: http, url: "http://user:<S>@127.0.0.1:1/<S>" }"#).without_marker(),
    failing_path("http_nowhere", r#"{ kind: http, url: "<S>://<M>" }"#).without_marker(),
    failing_path("http_late", r#"{ kind: http, timeout: 1, url: "<URL>/never?<S>" }"#).without_marker(),
    failing_path("http_misused", r#"{ kind: http, auth: "<S>", url: "<URL>/echo" }"#).without_marker(),
];

const POSTGRES: &[SecretPath] = &[
    printing_path(
        "postgres_returns",
        r#"kind: postgres
connection_string: "<DSN>"
query: "SELECT $1 AS got, $2 AS word"
params: ["<S>", "<M>"]"#,
    ),
    failing_path(
        "postgres_fails",
        r#"{ kind: postgres, connection_string: "<DSN>", query: "SELECT '<S> <M>'::int" }"#,
    ),
    failing_path(
        "postgres_raises",
        with_retry!(r#"kind: postgres
connection_string: "<DSN>"
command: "DO $$ BEGIN RAISE EXCEPTION '<S> <M>' USING HINT = '<S>', DETAIL = '<S>'; END $$""#),
    ),
    failing_path(
        "postgres_clashes",
        r#"kind: postgres
connection_string: "<DSN>"
commands:
  - "CREATE TEMP TABLE canary (v text PRIMARY KEY)"
  - "INSERT INTO canary VALUES ('<S> <M>')"
  - "INSERT INTO canary VALUES ('<S> <M>')""#,
    ),
    failing_path("postgres_nobody", r#"{ kind: postgres, auth: c_<N>, query: "SELECT 1" }"#)
        .with_credential(
            "postgres",
            r#"{"db_host":"127.0.0.1","db_port":1,"db_user":"somebody","db_password":"<V>","db_name":"some","sslmode":"disable"}"#,
        )
        .without_marker(),
    failing_path(
        "postgres_address",
        r#"{ kind: postgres, connection_string: "postgres://somebody:<S>@127.0.0.1:1/some?sslmode=disable", query: "SELECT 1" }"#,
    )
    .without_marker(),
    failing_path(
        "postgres_nonsense",
        r#"{ kind: postgres, connection_string: "<S> <M>", query: "SELECT 1" }"#,
    )
    .without_marker(),
    failing_path(
        "postgres_late",
        r#"{ kind: postgres, connection_string: "<DSN>", timeout: 1, query: "SELECT '<S>', pg_sleep(60)" }"#,
    )
    .without_marker(),
];

const SQLITE: &[SecretPath] = &[
    printing_path(
        "sqlite_returns",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT :got AS got, :word AS word", params: { got: "<S>", word: "<M>" } }"#,
    ),
    failing_path(
        "sqlite_fails",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT * FROM [<S> <M>]" }"#,
    ),
    failing_path(
        "sqlite_nowhere",
        r#"{ kind: sqlite, database: "/no/<S>/<M>.db", query: "SELECT 1" }"#,
    )
    .without_marker(),
    // The second step reads the stored secret back without having a secret itself.
    printing_path(
        "sqlite_leaves",
        r#"{ kind: sqlite, database: "<FILE>", command: "CREATE TABLE left_behind (v TEXT); INSERT INTO left_behind VALUES ('<S> <M>')" }"#,
    ),
    printing_path(
        "sqlite_finds",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT v, '{{ 'seen' ~ 'it_<N>' }}' AS word FROM left_behind" }"#,
    ),
];

const TRANSFER: &[SecretPath] = &[
    printing_path(
        "transfer_moves",
        r#"- { name: table, kind: sqlite, database: "<FILE>", command: "CREATE TABLE moved (v TEXT)" }
- name: move
  kind: transfer
  source: { type: http, url: "<URL>/rows", auth: c_<N>, data_path: data }
  target: { type: sqlite, database: "<FILE>", table: moved }"#,
    )
    .without_marker(),
    failing_path(
        "transfer_fails",
        r#"kind: transfer
source: { type: http, url: "<URL>/rows", auth: c_<N>, data_path: data }
target: { type: sqlite, database: "<FILE>", table: "t_{{ <K> | replace('-', '_') }}" }"#,
    )
    .without_marker(),
    failing_path(
        "transfer_refused",
        r#"kind: transfer
source: { type: http, url: "<URL>/status/500?<M>", auth: c_<N> }
target: { type: sqlite, database: "<FILE>", table: moved }"#,
    )
    .without_marker(),
];

const SCRIPT: &[SecretPath] = &[
    printing_path(
        "script_says",
        r#"{ kind: script, script: { type: inline, content: "echo '<S>' <M>" } }"#,
    ),
    failing_path(
        "script_fails",
        r#"{ kind: script, script: { type: inline, content: "echo '<S>' <M> >&2; exit 4" } }"#,
    ),
    failing_path(
        "script_nowhere",
        r#"{ kind: script, script: { type: local, uri: "/no/<S>/<M>.sh" } }"#,
    )
    .without_marker(),
];

const MCP: &[SecretPath] = &[
    printing_path(
        "mcp_says",
        r#"kind: mcp
endpoint: "<URL>/mcp"
tool: echo
headers: { X-Token: "<S>" }
arguments: { token: "<S>", word: "<M>" }"#,
    ),
    failing_path(
        "mcp_fails",
        r#"{ kind: mcp, endpoint: "<URL>/mcp", tool: fail, arguments: { token: "<S>", word: "<M>" } }"#,
    ),
    failing_path("mcp_refused", r#"{ kind: mcp, endpoint: "<URL>/status/400?<S>", tool: echo }"#)
        .without_marker(),
];

const ARTIFACT: &[SecretPath] = &[
    printing_path(
        "artifact_keeps",
        r#"- { name: kept, kind: artifact, action: put, data: { token: "<S>", word: "<M>" } }
- { name: got, kind: artifact, action: get, result_ref: "{{ kept.ref }}" }"#,
    ),
    printing_path(
        "artifact_is_named",
        r#"- { name: kept, kind: artifact, action: put, data: ["<M>"], input: { name: "<S>" } }
- { name: got, kind: artifact, action: get, result_ref: "{{ kept.ref }}" }"#,
    ),
    failing_path(
        "artifact_is_gone",
        r#"{ kind: artifact, action: get, result_ref: "noetl://execution/1/result/<S>/1" }"#,
    )
    .without_marker(),
    failing_path("artifact_is_none", r#"{ kind: result_fetch, input: { result_ref: "<S> <M>" } }"#)
        .without_marker(),
];

const PLAYBOOK: &[SecretPath] = &[
    printing_path(
        "playbook_passes",
        r#"- { name: made, kind: noop, result: { token: "<S>", word: "<M>" } }
- { name: child, kind: playbook, path: canary/child, return_result: true, input: { given: "{{ made }}" } }"#,
    ),
    printing_path(
        "workbook_says",
        r#"{ kind: workbook, name: tell, input: { token: "<S>", word: "<M>" } }"#,
    ),
];

const CONTAINER: &[SecretPath] = &[
    printing_path(
        "container_says",
        r#"{ kind: container, runtime: local, image: "some:1", env: { WHO: "<S>", WORD: "<M>" } }"#,
    ),
    failing_path(
        "container_fails",
        r#"{ kind: container, runtime: local, image: "broken:1", env: { WHO: "<S>", WORD: "<M>" } }"#,
    ),
];

const NATS: &[SecretPath] = &[
    printing_path(
        "nats_puts",
        r#"{ kind: nats, url: "<NATS>", operation: kv_put, bucket: canary, key: it, value: "<S> <M>" }"#,
    )
    .without_marker(),
    printing_path(
        "nats_gets",
        r#"- { name: put, kind: nats, url: "<NATS>", operation: kv_put, bucket: canary, key: it, value: { token: "<S>", word: "<M>" } }
- { name: got, kind: nats, url: "<NATS>", operation: kv_get, bucket: canary, key: it }"#,
    ),
    failing_path(
        "nats_publishes",
        r#"{ kind: nats, url: "<NATS>", operation: js_get_msg, stream: "<S>_<M>", seq: 1 }"#,
    )
    .without_marker(),
    failing_path(
        "nats_nobody",
        "{ kind: nats, auth: c_<N>, timeout: 3, operation: kv_get, bucket: b, key: k }",
    )
    .with_credential("nats", r#"{"url":"nats://127.0.0.1:1","user":"somebody","password":"<V>"}"#)
    .without_marker(),
    failing_path(
        "subscription_polls",
        r#"{ kind: subscription, source: nats, url: "<NATS>", stream: "<S>_<M>", consumer: c }"#,
    )
    .without_marker(),
];

const LACKING: &[SecretPath] = &[
    failing_path(
        "lacking_kafka",
        r#"{ kind: subscription, source: "{{ 'kafka' }}", stream: "<S>", operation: poll }"#,
    )
    .without_marker(),
    failing_path(
        "lacking_kubernetes",
        r#"{ kind: container, runtime: "{{ 'kubernetes' }}", image: i, env: { WHO: "<S>" } }"#,
    )
    .without_marker(),
];

const KEYCHAIN: &[SecretPath] = &[
    printing_path(
        "keychain_token",
        r#"{ kind: noop, result: ["{{ keychain.issued.token }}", "<M>"] }"#,
    )
    .with_credential("secret", r#"{"client_id":"someone","client_secret":"<V>"}"#),
    failing_path("keychain_refused", r#"{ kind: noop, result: "{{ keychain.refused.token }}" }"#)
        .with_credential("secret", r#"{"client_id":"someone","client_secret":"<V>"}"#)
        .without_marker(),
    printing_path(
        "keychain_mapped",
        r#"{ kind: noop, result: ["{{ keychain.mapped.inner | upper }}", "<M>"] }"#,
    )
    .with_credential("secret", r#"{"outer":{"inner":"<V>"}}"#),
];

const CURSOR: &[SecretPath] = &[
    printing_path(
        "cursor_fills",
        r#"{ kind: sqlite, database: "<FILE>", command: "CREATE TABLE canary_jobs (state TEXT); INSERT INTO canary_jobs VALUES ('open'), ('open'), ('open')" }"#,
    )
    .without_marker(),
    printing_path(
        "cursor_claims",
        r#"{ kind: noop, result: ["<S>", "<M>", "{{ iter.job.v }}"] }"#,
    )
    .with_step_keys(
        r#"loop: { iterator: job, cursor: { kind: sqlite, options: { database: "<FILE>" }, claim: "UPDATE canary_jobs SET state = 'taken' WHERE state = 'open' RETURNING '<S> <M>' AS v" }, spec: { mode: cursor, max_in_flight: 1 } }"#,
    )
    .without_marker(),
    failing_path("cursor_breaks", r#"{ kind: noop, result: "<M>" }"#)
        .with_step_keys(
            r#"loop: { iterator: job, cursor: { kind: sqlite, options: { database: "<FILE>" }, claim: "UPDATE [<S> <M>] SET state = 'taken' RETURNING 1" }, spec: { mode: cursor, max_in_flight: 1 } }"#,
        )
        .without_marker(),
];

const END: &[SecretPath] = &[failing_path(
    "end_fails",
    with_retry!(
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise RuntimeError(f"{token} {word}")'"#
    ),
)
.as_last()];
