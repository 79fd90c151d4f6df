"""The client against a real server, at NOETL_SERVER_URL, with a worker; and against one that is late.

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
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from noetl_client import Client, ProblemError, Unreachable, models  # noqa: E402

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


class ARealServer(unittest.TestCase):
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = Client(os.environ["NOETL_SERVER_URL"], token=os.environ.get("NOETL_TOKEN"))
        told = cls.client.register_playbook(models.RegisterRequest(content=PLAYBOOK))
        assert told.path == "tests/adding", told

    def test_a_run_is_started_waited_for_and_read(self) -> None:
        ended = self.client.run("tests/adding", {"a": 41})
        self.assertEqual(ended.status, "COMPLETED")
        self.assertTrue(ended.completed)
        pages = list(self.client.events(ended.execution_id, limit=2))
        self.assertEqual([event.seq for event in pages], list(range(1, len(pages) + 1)))
        self.assertGreater(len(pages), 4)
        self.assertEqual(pages[0].event_type, "playbook.started")
        followed = list(self.client.follow(ended.execution_id, after=2))
        self.assertEqual([event.seq for event in followed], [event.seq for event in pages[2:]])
        detail = self.client.execution(ended.execution_id)
        self.assertEqual(detail.workload["a"], 41)
        explained = self.client.explain_execution(int(ended.execution_id))
        self.assertEqual(explained.status, "COMPLETED")

    def test_lists_go_through_all_pages(self) -> None:
        begun = {self.client.run("tests/adding").execution_id for _ in range(3)}
        found = [line.execution_id for line in self.client.executions(path="tests/adding", limit=1)]
        self.assertLessEqual(begun, set(found))
        self.assertEqual(len(found), len(set(found)))

    def test_a_key_starts_one_run(self) -> None:
        request = models.ExecuteRequest(path="tests/adding")
        first = self.client.execute(request, idempotency_key="python-once")
        second = self.client.execute(request, idempotency_key="python-once")
        self.assertEqual(first.execution_id, second.execution_id)
        other = models.ExecuteRequest(path="tests/adding", payload={"a": 2})
        with self.assertRaises(ProblemError) as raised:
            self.client.execute(other, idempotency_key="python-once")
        self.assertEqual((raised.exception.status, raised.exception.code), (422, "idempotency_mismatch"))

    def test_a_problem_has_a_code(self) -> None:
        with self.assertRaises(ProblemError) as raised:
            self.client.run("tests/nowhere")
        problem = raised.exception
        self.assertEqual((problem.status, problem.code), (404, "not_found"))
        self.assertIn("tests/nowhere", problem.detail)
        self.assertTrue(problem.request_id)
        with self.assertRaises(ProblemError) as raised:
            self.client.register_playbook(models.RegisterRequest(content="workflow: 7"))
        self.assertTrue(raised.exception.errors)

    def test_addresses_with_slashes(self) -> None:
        versions = self.client.playbook_versions("tests/adding")
        self.assertEqual(versions.entries[0].path, "tests/adding")
        form = self.client.playbook_form("tests/adding")
        self.assertEqual([each.name for each in form.fields], ["a"])
        self.assertIn("tests/adding", self.client.playbook_paths("playbook"))

    def test_the_example_of_the_readme(self) -> None:
        text = (HERE.parent / "README.md").read_text(encoding="utf-8")
        (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(example, "README.md", "exec"), {})
        self.assertIn("COMPLETED {'text': 'Hello, Ada!'}", said.getvalue())
        self.assertIn("1 playbook.started", said.getvalue())
        self.assertIn("not_found", said.getvalue())


class ALateServer(unittest.TestCase):
    """One that answers as it is told to, and notes what it was asked."""

    def setUp(self) -> None:
        self.answers: list[tuple[int, dict[str, str], Any]] = []
        self.asked: list[tuple[str, str, str | None]] = []
        test = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                test.asked.append((self.command, self.path, self.headers.get("Idempotency-Key")))
                status, headers, body = test.answers.pop(0)
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.slept: list[float] = []
        self.client = Client(self.url, retries=3, sleep=self.slept.append)

    def problem(self, status: int, code: str) -> dict[str, Any]:
        return {"type": "t", "title": "t", "status": status, "detail": "d", "code": code, "error": "d"}

    def test_what_comes_at_a_bad_time_is_sent_again_under_the_same_key(self) -> None:
        begun = {
            "execution_id": "7", "status": "started", "commands_generated": 1,
            "path": "p", "version": 1, "catalog_id": "8", "something": "new",
        }  # fmt: skip
        self.answers = [
            (503, {"Retry-After": "2"}, self.problem(503, "store_unavailable")),
            (429, {}, self.problem(429, "rate_limited")),
            (200, {}, begun),
        ]
        told = self.client.execute(models.ExecuteRequest(path="p"))
        self.assertEqual(told.execution_id, "7")
        keys = {key for _, _, key in self.asked}
        self.assertEqual((len(self.asked), len(keys)), (3, 1))
        self.assertNotIn(None, keys)
        self.assertEqual(self.slept[0], 2.0)

    def test_what_time_does_not_mend_is_not_sent_again(self) -> None:
        self.answers = [(404, {}, self.problem(404, "not_found"))]
        with self.assertRaises(ProblemError) as raised:
            self.client.execution_status(7)
        self.assertEqual(raised.exception.code, "not_found")
        self.assertEqual(self.slept, [])

    def test_it_gives_up_in_the_end(self) -> None:
        self.answers = [(502, {}, "<html>bad gateway</html>")] * 4
        with self.assertRaises(ProblemError) as raised:
            self.client.whoami()
        self.assertEqual((raised.exception.status, raised.exception.code), (502, ""))
        self.assertEqual(len(self.asked), 4)

    def test_a_redirect_is_not_followed_with_the_token(self) -> None:
        self.answers = [(307, {"Location": f"{self.url}/elsewhere"}, "")]
        with self.assertRaises(ProblemError) as raised:
            self.client.whoami()
        self.assertEqual((raised.exception.status, len(self.asked)), (307, 1))

    def test_nobody_is_there(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaises(Unreachable):
            self.client.whoami()
        self.assertEqual(len(self.slept), 3)


if __name__ == "__main__":
    unittest.main()
