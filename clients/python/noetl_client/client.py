"""The client: all operations of the API, and helpers that combine several calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from . import models
from ._codec import decode
from ._http import parse_json, quote_path_segment
from .operations import Operations

#: Statuses of an execution that has ended.
TERMINAL_STATUSES = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

MIN_POLL_INTERVAL_SECONDS = 0.05
MAX_POLL_INTERVAL_SECONDS = 1.0


class Client(Operations):
    """A client of one NoETL server.

    >>> client = Client("http://127.0.0.1:8082", token="noetl_…")
    """

    def run(
        self,
        path: str,
        payload: Any = None,
        *,
        timeout: float = 300.0,
        idempotency_key: str | None = None,
    ) -> models.ExecutionStatusView:
        """Starts an execution of a playbook and waits until it ends."""
        request = models.ExecuteRequest(path=path, payload=payload)
        started = self.execute(request, idempotency_key=idempotency_key)
        return self.wait(started.execution_id, timeout=timeout)

    def wait(self, execution_id: str | int, *, timeout: float = 300.0) -> models.ExecutionStatusView:
        """Waits until an execution is completed, failed or cancelled, and returns its status.

        Raises ``TimeoutError`` if it has not ended after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        poll_interval = MIN_POLL_INTERVAL_SECONDS
        while True:
            status = self.execution_status(execution_id)
            if status.status in TERMINAL_STATUSES:
                return status
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(
                    f"execution {execution_id} is {status.status} after {timeout} s; increase timeout"
                )
            self._sleep(min(poll_interval, remaining))
            poll_interval = min(MAX_POLL_INTERVAL_SECONDS, poll_interval * 1.5)

    def iter_executions(self, **filters: Any) -> Iterator[models.ExecutionSummary]:
        """Iterates over the executions of all pages, newest first.

        ``filters`` are the parameters of ``list_executions``.
        """
        while True:
            response = self._send("GET", "/api/executions", query=filters)
            page: list[models.ExecutionSummary] = decode(
                list[models.ExecutionSummary], parse_json(response.body)
            )
            yield from page
            cursor = response.headers.get("x-next-cursor")
            if not cursor:
                return
            filters = {**filters, "cursor": cursor, "offset": None}

    def iter_events(self, execution_id: str | int, **filters: Any) -> Iterator[models.EventView]:
        """Iterates over the events of an execution, over all pages.

        ``filters`` are the parameters of ``execution_events``.
        """
        while True:
            page = self.execution_events(execution_id, **filters)
            yield from page.events
            if not page.next_cursor:
                return
            filters = {**filters, "cursor": page.next_cursor}

    def follow(self, execution_id: str | int, *, after: int | None = None) -> Iterator[models.EventView]:
        """Yields the events of an execution as they occur, until it ends.

        ``after`` is the ``seq`` of the last event already received.
        """
        path = f"/api/executions/{quote_path_segment(execution_id)}/events/stream"
        for item in self._stream_json_lines(path, {"last_event_id": after}):
            event: models.EventView = decode(models.EventView, item)
            yield event

    def follow_output(
        self, execution_id: str | int, *, step: str | None = None, after: int | None = None
    ) -> Iterator[models.OutputView]:
        """Yields the output that tasks of an execution send while they run, until it ends.

        ``after`` is the ``position`` of the last chunk already received.
        """
        path = f"/api/executions/{quote_path_segment(execution_id)}/logs/stream"
        for item in self._stream_json_lines(path, {"last_event_id": after, "step": step}):
            chunk: models.OutputView = decode(models.OutputView, item)
            yield chunk
