"""Tests of the client against a server with a worker at NOETL_SERVER_URL, and against a stub server.

    NOETL_SERVER_URL=http://127.0.0.1:8082 python3 -m unittest discover -s clients/python/tests
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

CLIENT_DIR = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CLIENT_DIR))

from noetl_client import Client, ProblemError, UnreachableError, models  # noqa: E402

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: adding, path: tests/adding }
workload: { a: 1 }
workflow:
  - step: first
    tool: { kind: noop, result: { sum: '{{ workload.a + 1 }}' } }
    next: { arcs: [{ step: second }] }
  - step: second
    tool: { kind: noop, result: { a: '{{ workload.a }}' } }
"""


class ServerTest(unittest.TestCase):
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = Client(os.environ["NOETL_SERVER_URL"], token=os.environ.get("NOETL_TOKEN"))
        registered = cls.client.register_playbook(models.RegisterRequest(content=PLAYBOOK))
        assert registered.path == "tests/adding", registered

    def test_runs_playbook_and_reads_its_events(self) -> None:
        execution = self.client.run("tests/adding", {"a": 41})
        self.assertEqual(execution.status, "COMPLETED")
        self.assertTrue(execution.completed)
        events = list(self.client.iter_events(execution.execution_id, limit=2))
        self.assertEqual([event.seq for event in events], list(range(1, len(events) + 1)))
        self.assertGreater(len(events), 4)
        self.assertEqual(events[0].event_type, "playbook.started")
        followed = list(self.client.follow(execution.execution_id, after=2))
        self.assertEqual([event.seq for event in followed], [event.seq for event in events[2:]])
        detail = self.client.execution(execution.execution_id)
        self.assertEqual(detail.workload["a"], 41)
        explanation = self.client.explain_execution(int(execution.execution_id))
        self.assertEqual(explanation.status, "COMPLETED")

    def test_iterates_over_all_pages(self) -> None:
        started = {self.client.run("tests/adding").execution_id for _ in range(3)}
        executions = self.client.iter_executions(path="tests/adding", limit=1)
        found = [execution.execution_id for execution in executions]
        self.assertLessEqual(started, set(found))
        self.assertEqual(len(found), len(set(found)))

    def test_idempotency_key_starts_one_execution(self) -> None:
        request = models.ExecuteRequest(path="tests/adding")
        first = self.client.execute(request, idempotency_key="python-once")
        second = self.client.execute(request, idempotency_key="python-once")
        self.assertEqual(first.execution_id, second.execution_id)
        other = models.ExecuteRequest(path="tests/adding", payload={"a": 2})
        with self.assertRaises(ProblemError) as raised:
            self.client.execute(other, idempotency_key="python-once")
        self.assertEqual((raised.exception.status, raised.exception.code), (422, "idempotency_mismatch"))

    def test_problem_error_has_code_and_details(self) -> None:
        with self.assertRaises(ProblemError) as raised:
            self.client.run("tests/missing")
        problem = raised.exception
        self.assertEqual((problem.status, problem.code), (404, "not_found"))
        self.assertIn("tests/missing", problem.detail)
        self.assertTrue(problem.request_id)
        with self.assertRaises(ProblemError) as raised:
            self.client.register_playbook(models.RegisterRequest(content="workflow: 7"))
        self.assertTrue(raised.exception.errors)

    def test_encodes_slashes_in_paths(self) -> None:
        versions = self.client.playbook_versions("tests/adding")
        self.assertEqual(versions.entries[0].path, "tests/adding")
        ui_schema = self.client.playbook_ui_schema("tests/adding")
        self.assertEqual([field.name for field in ui_schema.fields], ["a"])
        self.assertIn("tests/adding", self.client.playbook_paths("playbook"))

    def test_readme_example_runs(self) -> None:
        text = (CLIENT_DIR / "README.md").read_text(encoding="utf-8")
        (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(example, "README.md", "exec"), {})
        self.assertIn("COMPLETED {'text': 'Hello, Ada!'}", output.getvalue())
        self.assertIn("1 playbook.started", output.getvalue())
        self.assertIn("not_found", output.getvalue())


class StubResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class RecordedRequest(NamedTuple):
    method: str
    path: str
    idempotency_key: str | None


class StubServerTest(unittest.TestCase):
    """Tests against a server that returns prepared responses and records the requests."""

    def setUp(self) -> None:
        self.responses: list[StubResponse] = []
        self.requests: list[RecordedRequest] = []
        test = self

        class Handler(BaseHTTPRequestHandler):
            def respond(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                key = self.headers.get("Idempotency-Key")
                test.requests.append(RecordedRequest(self.command, self.path, key))
                status, headers, body = test.responses.pop(0)
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = respond

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.sleeps: list[float] = []
        self.client = Client(self.url, retries=3, sleep=self.sleeps.append)

    def problem_body(self, status: int, code: str) -> dict[str, Any]:
        detail = {"detail": "d", "error": "d", "message": "d"}
        return {"type": "t", "title": "t", "status": status, "code": code, **detail}

    def test_retries_with_same_idempotency_key(self) -> None:
        started = {
            "execution_id": "7", "status": "started", "commands_generated": 1,
            "path": "p", "version": 1, "catalog_id": "8", "unknown_field": "ignored",
        }  # fmt: skip
        self.responses = [
            StubResponse(503, {"Retry-After": "2"}, self.problem_body(503, "store_unavailable")),
            StubResponse(429, {}, self.problem_body(429, "rate_limited")),
            StubResponse(200, {}, started),
        ]
        response = self.client.execute(models.ExecuteRequest(path="p"))
        self.assertEqual(response.execution_id, "7")
        keys = {request.idempotency_key for request in self.requests}
        self.assertEqual((len(self.requests), len(keys)), (3, 1))
        self.assertNotIn(None, keys)
        self.assertEqual(self.sleeps[0], 2.0)

    def test_does_not_retry_permanent_errors(self) -> None:
        self.responses = [StubResponse(404, {}, self.problem_body(404, "not_found"))]
        with self.assertRaises(ProblemError) as raised:
            self.client.execution_status(7)
        self.assertEqual(raised.exception.code, "not_found")
        self.assertEqual(self.sleeps, [])

    def test_stops_after_configured_retries(self) -> None:
        self.responses = [StubResponse(502, {}, "<html>bad gateway</html>")] * 4
        with self.assertRaises(ProblemError) as raised:
            self.client.whoami()
        self.assertEqual((raised.exception.status, raised.exception.code), (502, ""))
        self.assertEqual(len(self.requests), 4)

    def test_does_not_follow_redirects(self) -> None:
        self.responses = [StubResponse(307, {"Location": f"{self.url}/other"}, "")]
        with self.assertRaises(ProblemError) as raised:
            self.client.whoami()
        self.assertEqual((raised.exception.status, len(self.requests)), (307, 1))

    def test_raises_if_server_is_unreachable(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaises(UnreachableError):
            self.client.whoami()
        self.assertEqual(len(self.sleeps), 3)


if __name__ == "__main__":
    unittest.main()
