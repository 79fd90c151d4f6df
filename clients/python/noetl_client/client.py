"""The client: every operation of the API, and a few things that take several calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from . import models
from ._codec import decode
from ._http import NoetlError, quoted
from .operations import Operations

#: How runs end.
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


class Client(Operations):
    """Speaks to a NoETL server.

    >>> client = Client("http://127.0.0.1:8082", token="noetl_…")
    """

    def run(
        self,
        path: str,
        payload: Any = None,
        *,
        timeout: float = 300.0,
        idempotency_key: str | None = None,
    ) -> models.StatusView:
        """Starts a run of a playbook and waits for its end."""
        request = models.ExecuteRequest(path=path, payload=payload)
        begun = self.execute(request, idempotency_key=idempotency_key)
        return self.wait(begun.execution_id, timeout=timeout)

    def wait(self, execution_id: str | int, *, timeout: float = 300.0) -> models.StatusView:
        """Waits for the end of a run, however it ends."""
        end = time.monotonic() + timeout
        pause = 0.05
        while True:
            status = self.execution_status(execution_id)
            if status.status in ENDS:
                return status
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{execution_id} is {status.status} after {timeout} s")
            self._sleep(min(pause, left))
            pause = min(1.0, pause * 1.5)

    def executions(self, **filters: Any) -> Iterator[models.ExecutionLine]:
        """All runs, newest first, page by page; the filters are those of ``list_executions``."""
        while True:
            reply = self._send("GET", "/api/executions", query=filters)
            lines: list[models.ExecutionLine] = decode(list[models.ExecutionLine], _json(reply.body))
            yield from lines
            cursor = reply.headers.get("x-next-cursor")
            if not cursor:
                return
            filters = {**filters, "cursor": cursor, "offset": None}

    def events(self, execution_id: str | int, **filters: Any) -> Iterator[models.EventView]:
        """The whole log of a run, page by page; the filters are those of ``execution_events``."""
        while True:
            page = self.execution_events(execution_id, **filters)
            yield from page.events
            if not page.next_cursor:
                return
            filters = {**filters, "cursor": page.next_cursor}

    def follow(self, execution_id: str | int, *, after: int | None = None) -> Iterator[models.EventView]:
        """The log of a run as it grows, to its end; ``after`` is the ``seq`` of the last one seen."""
        path = f"/api/executions/{quoted(execution_id)}/events/stream"
        for line in self._lines(path, {"last_event_id": after}):
            event: models.EventView = decode(models.EventView, line)
            yield event


def _json(body: bytes) -> Any:
    import json

    try:
        return json.loads(body)
    except ValueError as error:
        raise NoetlError(f"the server's answer cannot be read: {error}") from error
