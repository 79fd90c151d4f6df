"""The way to a server: requests, retries, problems. Standard library only."""

from __future__ import annotations

import dataclasses
import http.client
import json
import random
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from typing import Any, TypeVar

from . import models
from ._codec import decode, encode

T = TypeVar("T")

#: What time alone may mend.
RETRIED = frozenset({408, 429, 502, 503, 504})


class NoetlError(Exception):
    """A call did not give what it should."""


class Unreachable(NoetlError):
    """The server was not reached, or the answer was cut off: the call may have taken effect."""


class ProblemError(NoetlError):
    """The server refused, and said why.

    ``code`` is stable and has a page in the documentation; ``detail`` is for people.
    """

    def __init__(self, problem: models.Problem, retry_after: float | None) -> None:
        super().__init__(f"{problem.detail} ({problem.code})")
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.detail = problem.detail
        self.request_id = problem.request_id
        self.errors = problem.errors or []
        self.retry_after = retry_after


@dataclasses.dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes to the server that it was given for, and nowhere else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Transport:
    """Sends requests to one server.

    ``retries`` is how often a request is made again after 408, 429, 502, 503, 504 or a connection
    that broke. A request that changes something carries an ``Idempotency-Key``, the same one each
    time, so that it has its effect once.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 4,
        ssl_context: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"not the address of a server: {url!r}; it begins with http:// or https://")
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._retries = retries
        self._sleep = sleep
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if ssl_context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=ssl_context))
        self._opener = urllib.request.build_opener(*handlers)

    def _call(
        self,
        method: str,
        path: str,
        *,
        answer: Any,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        changes: bool = False,
        idempotency_key: str | None = None,
        accept: str = "application/json",
    ) -> Any:
        """Makes a call, and again where time may help."""
        key = (idempotency_key or uuid.uuid4().hex) if changes else None
        reply = self._send(method, path, query=query, body=body, key=key, accept=accept)
        if answer is str:
            return reply.body.decode("utf-8")
        if answer is bytes:
            return reply.body
        try:
            value = json.loads(reply.body)
        except ValueError as error:
            raise NoetlError(f"the server's answer cannot be read: {error}") from error
        return decode(answer, value)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        accept: str = "application/json",
    ) -> Reply:
        request = self._request(method, path, query, body, key, accept)
        may_repeat = method in ("GET", "PUT", "DELETE") or key is not None
        attempt = 0
        while True:
            wait: float | None
            try:
                with self._opener.open(request, timeout=self._timeout) as response:
                    headers = _headers(response.headers)
                    return Reply(response.status, headers, response.read())
            except urllib.error.HTTPError as error:
                with error:
                    refused = _problem(error)
                if attempt >= self._retries or error.code not in RETRIED:
                    raise refused from None
                wait = refused.retry_after
            except (OSError, http.client.HTTPException) as error:
                if attempt >= self._retries or not may_repeat:
                    raise Unreachable(f"{method} {self._url}{path}: {error}") from error
                wait = None
            self._sleep(wait if wait is not None else _backoff(attempt))
            attempt += 1

    def _lines(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The lines of JSON of a live answer."""
        request = self._request("GET", path, query, None, None, "application/jsonl")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                for line in response:
                    if line.strip():
                        yield json.loads(line)
        except urllib.error.HTTPError as error:
            with error:
                raise _problem(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"GET {self._url}{path}: {error}") from error

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
        accept: str,
    ) -> urllib.request.Request:
        url = self._url + path
        pairs = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        if pairs:
            url += "?" + urllib.parse.urlencode(pairs)
        headers = {"Accept": accept, "User-Agent": "noetl-client-python"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None
        if body is not None:
            data = json.dumps(encode(body)).encode("utf-8")
            headers["Content-Type"] = "application/json"
        return urllib.request.Request(url, data=data, headers=headers, method=method)


def quoted(value: object) -> str:
    """A part of an address; slashes in it do not divide it."""
    return urllib.parse.quote(str(value), safe="")


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _backoff(attempt: int) -> float:
    return float(min(10.0, 0.1 * 2**attempt) * (0.5 + random.random() / 2))


def _headers(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _problem(error: urllib.error.HTTPError) -> ProblemError:
    """The problem of an answer; one that a proxy wrote has no more than a status."""
    text = error.headers.get("Retry-After")
    retry_after = float(text) if text and text.isdigit() else None
    try:
        problem: models.Problem = decode(models.Problem, json.loads(error.read()))
    except (ValueError, TypeError, KeyError, AttributeError, OSError, http.client.HTTPException):
        detail = f"the server answered with {error.code} {error.reason}"
        problem = models.Problem(
            type="about:blank",
            title=str(error.reason),
            status=error.code,
            detail=detail,
            code="",
            error=detail,
        )
    return ProblemError(problem, retry_after)
