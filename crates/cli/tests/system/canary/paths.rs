//! The ways that a secret goes: every kind of tool, and all that may become of its call.
//!
//! In the text of a task `<S>` is the secret, `<K>` the same inside of an expression, `<M>` a word that
//! only the task makes, and `<N>` the name of the path. What a task says it says with both, so that
//! wherever the word is found the secret could have been.

/// One way of a secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) name: &'static str,
    /// The task.
    pub(super) tool: &'static str,
    /// More keys of its step.
    pub(super) step: &'static str,
    /// The type and the data of its credential; `<V>` is the secret.
    pub(super) credential: (&'static str, &'static str),
    pub(super) fails: bool,
    /// Whether the word goes where the secret would.
    pub(super) is_told: bool,
    /// Whether the run ends with it.
    pub(super) is_last: bool,
}

const fn says(name: &'static str, tool: &'static str) -> Path {
    Path {
        name,
        tool,
        step: "",
        credential: ("bearer", r#"{"token":"<V>"}"#),
        fails: false,
        is_told: true,
        is_last: false,
    }
}

const fn fails(name: &'static str, tool: &'static str) -> Path {
    Path {
        fails: true,
        ..says(name, tool)
    }
}

impl Path {
    /// Nothing that the task was given is told of it.
    const fn silent(self) -> Self {
        Self {
            is_told: false,
            ..self
        }
    }

    const fn with(self, kind: &'static str, data: &'static str) -> Self {
        Self {
            credential: (kind, data),
            ..self
        }
    }

    const fn under(self, step: &'static str) -> Self {
        Self { step, ..self }
    }

    const fn last(self) -> Self {
        Self {
            is_last: true,
            ..self
        }
    }
}

/// A task is tried twice.
macro_rules! twice {
    ($tool:literal) => {
        concat!(
            $tool,
            "\nspec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 0.01 } }] } }"
        )
    };
}

/// The playbooks, each with the paths that its steps are.
pub(super) const GROUPS: [(&str, &[Path]); 17] = [
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

const NOOP: &[Path] = &[
    says(
        "noop_gives",
        r#"kind: noop
result: { plain: "<S>", list: ["<S>", { deep: "x<S>" }], word: "<M>" }"#,
    ),
    says(
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
    says(
        "noop_keys",
        r#"{ kind: noop, result: { inner: { "{{ <K> | upper }}": 1 }, word: "<M>" } }"#,
    ),
    says(
        "noop_sets",
        r#"{ kind: noop, result: 1, set: { ctx.kept: "<S>", ctx.word: "<M>", iter.kept: "<S>" } }"#,
    ),
    fails("noop_broken", r#"{ kind: noop, result: "{{ <K> + 1 }}" }"#).silent(),
    says(
        "noop_ruled",
        r#"kind: noop
result: "<M>"
spec: { policy: { rules: [{ when: "{{ <K> == 'x' }}", then: { do: retry } }, { else: { then: { do: continue, set: { ctx.ruled: "<S> <M>" } } } }] } }"#,
    ),
    says(
        "noop_selected",
        r#"kind: noop
result: { a: { b: "<S>", c: "<M>" } }
output: { inline_max_bytes: 0, select: [{ path: "$.a.b", as: part }, { path: "$.a.c", as: word }] }"#,
    ),
    says(
        "noop_loops",
        r#"{ kind: noop, result: ["<S>", "<M>", "{{ iter.n }}"] }"#,
    )
    .under("loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }"),
];

const PYTHON: &[Path] = &[
    says(
        "python_returns",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'result = {"got": token, "also": [{word: word, token: 1}]}'"#,
    ),
    fails(
        "python_raises",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(f"cannot log in with {token} {word}")'"#,
    ),
    fails(
        "python_tries_again",
        twice!(
            r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(word + token)'"#
        ),
    ),
    fails(
        "python_talks_long",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise ValueError(word + (" " + token) * 1000)'"#,
    ),
    says(
        "python_prints",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import sys
  print(token, word)
  print(token, word, file=sys.stderr)
  result = word"#,
    ),
    says(
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
    says(
        "python_escapes",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import json, urllib.parse
  once = json.dumps(token)
  result = [token, repr(token), once, json.dumps(once), json.dumps(token, ensure_ascii=False),
            urllib.parse.quote(token), urllib.parse.quote_plus(token), urllib.parse.quote(token, safe="@:/+%\" "), word]"#,
    )
    .with("bearer", r#"{"token":"<V> \"é\\/+%\t<V>"}"#),
    says(
        "python_is_big",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'result = {"first": word, "rows": [f"{n} {token} {word}" for n in range(20000)]}'"#,
    ),
    fails(
        "python_is_late",
        r#"kind: python
timeout: 1
input: { token: "<S>" }
code: |
  import time
  print(token, flush=True)
  time.sleep(60)"#,
    )
    .silent(),
    fails(
        "python_dies",
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: |
  import os, sys
  print(token, word, file=sys.stderr, flush=True)
  os.kill(os.getpid(), 9)"#,
    )
    .silent(),
];

const SHELL: &[Path] = &[
    says(
        "shell_says",
        r#"{ kind: shell, command: "echo '<S>' <M>" }"#,
    ),
    fails(
        "shell_fails",
        r#"{ kind: shell, command: "echo '<S>' <M>; echo '<S>' <M> >&2; exit 3" }"#,
    ),
    fails(
        "shell_tries_again",
        twice!(
            r#"kind: shell
command: "echo '<S>' <M> >&2; exit 1""#
        ),
    ),
    says(
        "shell_derives",
        r#"{ kind: shell, command: "echo <M>; printf %s '{{ <K> | upper }}'" }"#,
    ),
    says(
        "shell_packs",
        r#"{ kind: shell, command: "printf %060d%s 0 '<S>' | base64; echo <M>" }"#,
    ),
    says(
        "shell_shows_env",
        r#"{ kind: shell, env: { TOKEN: "<S>", WORD: "<M>" }, command: "env" }"#,
    ),
    says(
        "shell_is_cut",
        r#"{ kind: shell, command: "echo <M> >&2; head -c 1048560 /dev/zero | tr '\\0' x; printf %s '<S>'" }"#,
    ),
    fails(
        "shell_is_late",
        r#"{ kind: shell, timeout: 1, command: "echo '<S>'; sleep 60" }"#,
    )
    .silent(),
    fails(
        "shell_dies",
        r#"{ kind: shell, command: "echo '<S>' <M> >&2; kill -9 $$" }"#,
    ),
    fails(
        "shell_is_named",
        r#"{ kind: shell, shell: "/no/<S>/<M>", command: "true" }"#,
    )
    .silent(),
];

const HTTP: &[Path] = &[
    says(
        "http_sends",
        r#"kind: http
method: POST
url: "<URL>/echo"
headers: { X-Token: "<S>" }
json: { token: "<S>", word: "<M>" }"#,
    ),
    says("http_bearer", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#),
    says("http_basic", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#)
        .with("basic", r#"{"username":"somebody","password":"<V>"}"#),
    says("http_api_key", r#"{ kind: http, auth: c_<N>, url: "<URL>/echo?<M>" }"#)
        .with("api_key", r#"{"api_key":"<V>"}"#),
    says(
        "http_asks",
        r#"{ kind: http, url: "<URL>/echo", params: { token: "<S>", word: "<M>" } }"#,
    )
    .with("bearer", r#"{"token":"<V>/é+%:@ <V>"}"#),
    says(
        "http_form",
        r#"{ kind: http, method: POST, url: "<URL>/echo?<M>", form: { token: "<S>" } }"#,
    )
    .with("bearer", r#"{"token":"<V>/é+%:@ <V>"}"#),
    says(
        "http_packs",
        r#"{ kind: http, url: "<URL>/echo?word=<M>", headers: { X-Token: "<S>" }, response_type: binary }"#,
    )
    .silent(),
    says("http_moves", r#"{ kind: http, url: "<URL>/moved?<S>-<M>" }"#),
    fails(
        "http_refused",
        r#"{ kind: http, url: "<URL>/status/500?<S>-<M>", headers: { X-Token: "<S>" } }"#,
    ),
    fails("http_busy", twice!(r#"kind: http
url: "<URL>/status/503?<S>-<M>""#)),
    fails("http_nobody", r#"{ kind: http, url: "http://user:<S>@127.0.0.1:1/<S>" }"#).silent(),
    fails("http_nowhere", r#"{ kind: http, url: "<S>://<M>" }"#).silent(),
    fails("http_late", r#"{ kind: http, timeout: 1, url: "<URL>/never?<S>" }"#).silent(),
    fails("http_misused", r#"{ kind: http, auth: "<S>", url: "<URL>/echo" }"#).silent(),
];

const POSTGRES: &[Path] = &[
    says(
        "postgres_returns",
        r#"kind: postgres
connection_string: "<DSN>"
query: "SELECT $1 AS got, $2 AS word"
params: ["<S>", "<M>"]"#,
    ),
    fails(
        "postgres_fails",
        r#"{ kind: postgres, connection_string: "<DSN>", query: "SELECT '<S> <M>'::int" }"#,
    ),
    fails(
        "postgres_raises",
        twice!(r#"kind: postgres
connection_string: "<DSN>"
command: "DO $$ BEGIN RAISE EXCEPTION '<S> <M>' USING HINT = '<S>', DETAIL = '<S>'; END $$""#),
    ),
    fails(
        "postgres_clashes",
        r#"kind: postgres
connection_string: "<DSN>"
commands:
  - "CREATE TEMP TABLE canary (v text PRIMARY KEY)"
  - "INSERT INTO canary VALUES ('<S> <M>')"
  - "INSERT INTO canary VALUES ('<S> <M>')""#,
    ),
    fails("postgres_nobody", r#"{ kind: postgres, auth: c_<N>, query: "SELECT 1" }"#)
        .with(
            "postgres",
            r#"{"db_host":"127.0.0.1","db_port":1,"db_user":"somebody","db_password":"<V>","db_name":"some","sslmode":"disable"}"#,
        )
        .silent(),
    fails(
        "postgres_address",
        r#"{ kind: postgres, connection_string: "postgres://somebody:<S>@127.0.0.1:1/some?sslmode=disable", query: "SELECT 1" }"#,
    )
    .silent(),
    fails(
        "postgres_nonsense",
        r#"{ kind: postgres, connection_string: "<S> <M>", query: "SELECT 1" }"#,
    )
    .silent(),
    fails(
        "postgres_late",
        r#"{ kind: postgres, connection_string: "<DSN>", timeout: 1, query: "SELECT '<S>', pg_sleep(60)" }"#,
    )
    .silent(),
];

const SQLITE: &[Path] = &[
    says(
        "sqlite_returns",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT :got AS got, :word AS word", params: { got: "<S>", word: "<M>" } }"#,
    ),
    fails(
        "sqlite_fails",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT * FROM [<S> <M>]" }"#,
    ),
    fails(
        "sqlite_nowhere",
        r#"{ kind: sqlite, database: "/no/<S>/<M>.db", query: "SELECT 1" }"#,
    )
    .silent(),
    // The word is told where the secret is found again, by a step that was lent none.
    says(
        "sqlite_leaves",
        r#"{ kind: sqlite, database: "<FILE>", command: "CREATE TABLE left_behind (v TEXT); INSERT INTO left_behind VALUES ('<S> <M>')" }"#,
    ),
    says(
        "sqlite_finds",
        r#"{ kind: sqlite, database: "<FILE>", query: "SELECT v, '{{ 'seen' ~ 'it_<N>' }}' AS word FROM left_behind" }"#,
    ),
];

const TRANSFER: &[Path] = &[
    says(
        "transfer_moves",
        r#"- { name: table, kind: sqlite, database: "<FILE>", command: "CREATE TABLE moved (v TEXT)" }
- name: move
  kind: transfer
  source: { type: http, url: "<URL>/rows", auth: c_<N>, data_path: data }
  target: { type: sqlite, database: "<FILE>", table: moved }"#,
    )
    .silent(),
    fails(
        "transfer_fails",
        r#"kind: transfer
source: { type: http, url: "<URL>/rows", auth: c_<N>, data_path: data }
target: { type: sqlite, database: "<FILE>", table: "t_{{ <K> | replace('-', '_') }}" }"#,
    )
    .silent(),
    fails(
        "transfer_refused",
        r#"kind: transfer
source: { type: http, url: "<URL>/status/500?<M>", auth: c_<N> }
target: { type: sqlite, database: "<FILE>", table: moved }"#,
    )
    .silent(),
];

const SCRIPT: &[Path] = &[
    says(
        "script_says",
        r#"{ kind: script, script: { type: inline, content: "echo '<S>' <M>" } }"#,
    ),
    fails(
        "script_fails",
        r#"{ kind: script, script: { type: inline, content: "echo '<S>' <M> >&2; exit 4" } }"#,
    ),
    fails(
        "script_nowhere",
        r#"{ kind: script, script: { type: local, uri: "/no/<S>/<M>.sh" } }"#,
    )
    .silent(),
];

const MCP: &[Path] = &[
    says(
        "mcp_says",
        r#"kind: mcp
endpoint: "<URL>/mcp"
tool: echo
headers: { X-Token: "<S>" }
arguments: { token: "<S>", word: "<M>" }"#,
    ),
    fails(
        "mcp_fails",
        r#"{ kind: mcp, endpoint: "<URL>/mcp", tool: fail, arguments: { token: "<S>", word: "<M>" } }"#,
    ),
    fails(
        "mcp_refused",
        r#"{ kind: mcp, endpoint: "<URL>/status/400?<S>", tool: echo }"#,
    )
    .silent(),
];

const ARTIFACT: &[Path] = &[
    says(
        "artifact_keeps",
        r#"- { name: kept, kind: artifact, action: put, data: { token: "<S>", word: "<M>" } }
- { name: got, kind: artifact, action: get, result_ref: "{{ kept.ref }}" }"#,
    ),
    says(
        "artifact_is_named",
        r#"- { name: kept, kind: artifact, action: put, data: ["<M>"], input: { name: "<S>" } }
- { name: got, kind: artifact, action: get, result_ref: "{{ kept.ref }}" }"#,
    ),
    fails(
        "artifact_is_gone",
        r#"{ kind: artifact, action: get, result_ref: "noetl://execution/1/result/<S>/1" }"#,
    )
    .silent(),
    fails(
        "artifact_is_none",
        r#"{ kind: result_fetch, input: { result_ref: "<S> <M>" } }"#,
    )
    .silent(),
];

const PLAYBOOK: &[Path] = &[
    says(
        "playbook_passes",
        r#"- { name: made, kind: noop, result: { token: "<S>", word: "<M>" } }
- { name: child, kind: playbook, path: canary/child, return_result: true, input: { given: "{{ made }}" } }"#,
    ),
    says(
        "workbook_says",
        r#"{ kind: workbook, name: tell, input: { token: "<S>", word: "<M>" } }"#,
    ),
];

const CONTAINER: &[Path] = &[
    says(
        "container_says",
        r#"{ kind: container, runtime: local, image: "some:1", env: { WHO: "<S>", WORD: "<M>" } }"#,
    ),
    fails(
        "container_fails",
        r#"{ kind: container, runtime: local, image: "broken:1", env: { WHO: "<S>", WORD: "<M>" } }"#,
    ),
];

const NATS: &[Path] = &[
    says(
        "nats_puts",
        r#"{ kind: nats, url: "<NATS>", operation: kv_put, bucket: canary, key: it, value: "<S> <M>" }"#,
    )
    .silent(),
    says(
        "nats_gets",
        r#"- { name: put, kind: nats, url: "<NATS>", operation: kv_put, bucket: canary, key: it, value: { token: "<S>", word: "<M>" } }
- { name: got, kind: nats, url: "<NATS>", operation: kv_get, bucket: canary, key: it }"#,
    ),
    fails(
        "nats_publishes",
        r#"{ kind: nats, url: "<NATS>", operation: js_get_msg, stream: "<S>_<M>", seq: 1 }"#,
    )
    .silent(),
    fails(
        "nats_nobody",
        "{ kind: nats, auth: c_<N>, timeout: 3, operation: kv_get, bucket: b, key: k }",
    )
    .with("nats", r#"{"url":"nats://127.0.0.1:1","user":"somebody","password":"<V>"}"#)
    .silent(),
    fails(
        "subscription_polls",
        r#"{ kind: subscription, source: nats, url: "<NATS>", stream: "<S>_<M>", consumer: c }"#,
    )
    .silent(),
];

const LACKING: &[Path] = &[
    fails(
        "lacking_duckdb",
        r#"{ kind: duckdb, query: "SELECT '<S>'" }"#,
    )
    .silent(),
    fails(
        "lacking_snowflake",
        r#"{ kind: snowflake, query: "SELECT 1", password: "<S>" }"#,
    )
    .silent(),
    fails(
        "lacking_kafka",
        r#"{ kind: subscription, source: kafka, topic: "<S>", operation: poll }"#,
    )
    .silent(),
    fails(
        "lacking_kubernetes",
        r#"{ kind: container, runtime: kubernetes, image: i, env: { WHO: "<S>" } }"#,
    )
    .silent(),
];

const KEYCHAIN: &[Path] = &[
    says(
        "keychain_token",
        r#"{ kind: noop, result: ["{{ keychain.issued.token }}", "<M>"] }"#,
    )
    .with("secret", r#"{"client_id":"someone","client_secret":"<V>"}"#),
    fails(
        "keychain_refused",
        r#"{ kind: noop, result: "{{ keychain.refused.token }}" }"#,
    )
    .with("secret", r#"{"client_id":"someone","client_secret":"<V>"}"#)
    .silent(),
    says(
        "keychain_mapped",
        r#"{ kind: noop, result: ["{{ keychain.mapped.inner | upper }}", "<M>"] }"#,
    )
    .with("secret", r#"{"outer":{"inner":"<V>"}}"#),
];

const CURSOR: &[Path] = &[
    says(
        "cursor_fills",
        r#"{ kind: sqlite, database: "<FILE>", command: "CREATE TABLE canary_jobs (state TEXT); INSERT INTO canary_jobs VALUES ('open'), ('open'), ('open')" }"#,
    )
    .silent(),
    says(
        "cursor_claims",
        r#"{ kind: noop, result: ["<S>", "<M>", "{{ iter.job.v }}"] }"#,
    )
    .under(
        r#"loop: { iterator: job, cursor: { kind: sqlite, options: { database: "<FILE>" }, claim: "UPDATE canary_jobs SET state = 'taken' WHERE state = 'open' RETURNING '<S> <M>' AS v" }, spec: { mode: cursor, max_in_flight: 1 } }"#,
    )
    .silent(),
    fails("cursor_breaks", r#"{ kind: noop, result: "<M>" }"#)
        .under(
            r#"loop: { iterator: job, cursor: { kind: sqlite, options: { database: "<FILE>" }, claim: "UPDATE [<S> <M>] SET state = 'taken' RETURNING 1" }, spec: { mode: cursor, max_in_flight: 1 } }"#,
        )
        .silent(),
];

const END: &[Path] = &[fails(
    "end_fails",
    twice!(
        r#"kind: python
input: { token: "<S>", word: "<M>" }
code: 'raise RuntimeError(f"{token} {word}")'"#
    ),
)
.last()];
