"""HTTP transport: requests, retries and error responses. Uses the standard library only."""

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

#: HTTP statuses after which a request is retried.
RETRYABLE_STATUSES = frozenset({408, 429, 502, 503, 504})

MIN_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 10.0


class NoetlError(Exception):
    """Base class of the errors of this client."""


class UnreachableError(NoetlError):
    """The connection failed or was lost. The call may have taken effect."""


class ProblemError(NoetlError):
    """The server returned an error response.

    ``code`` is stable and documented. ``detail`` is a human-readable message.
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
class Response:
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, so that the token is sent only to the configured server."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Transport:
    """Sends requests to one server.

    ``retries`` is the maximum number of retries after 408, 429, 502, 503, 504 or a lost connection.
    All attempts of a mutating request send the same ``Idempotency-Key``, so that the request takes
    effect once.
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
            raise ValueError(f"invalid server URL {url!r}; it must start with http:// or https://")
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
        response_type: Any,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        mutates: bool = False,
        idempotency_key: str | None = None,
        accept: str = "application/json",
    ) -> Any:
        """Sends a request with retries and decodes the response as ``response_type``."""
        key = (idempotency_key or uuid.uuid4().hex) if mutates else None
        response = self._send(method, path, query=query, body=body, key=key, accept=accept)
        if response_type is str:
            return response.body.decode("utf-8")
        if response_type is bytes:
            return response.body
        return decode(response_type, parse_json(response.body))

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        accept: str = "application/json",
    ) -> Response:
        """Sends a request, and retries it if the failure may be temporary."""
        request = self._build_request(method, path, query, body, key, accept)
        is_idempotent = method in ("GET", "PUT", "DELETE") or key is not None
        attempt = 0
        while True:
            retry_after: float | None
            try:
                with self._opener.open(request, timeout=self._timeout) as response:
                    headers = _to_header_dict(response.headers)
                    return Response(response.status, headers, response.read())
            except urllib.error.HTTPError as error:
                with error:
                    problem_error = _to_problem_error(error)
                if attempt >= self._retries or error.code not in RETRYABLE_STATUSES:
                    raise problem_error from None
                retry_after = problem_error.retry_after
            except (OSError, http.client.HTTPException) as error:
                if attempt >= self._retries or not is_idempotent:
                    raise UnreachableError(f"{method} {self._url}{path}: {error}") from error
                retry_after = None
            self._sleep(retry_after if retry_after is not None else _backoff_seconds(attempt))
            attempt += 1

    def _stream_json_lines(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the values of a JSON lines response as they arrive."""
        request = self._build_request("GET", path, query, None, None, "application/jsonl")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                for line in response:
                    if line.strip():
                        yield json.loads(line)
        except urllib.error.HTTPError as error:
            with error:
                raise _to_problem_error(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"GET {self._url}{path}: {error}") from error

    def _build_request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
        accept: str,
    ) -> urllib.request.Request:
        url = self._url + path
        pairs = {name: _to_query_value(value) for name, value in (query or {}).items() if value is not None}
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


def quote_path_segment(value: object) -> str:
    """Percent-encodes one segment of a URL path, including its slashes."""
    return urllib.parse.quote(str(value), safe="")


def parse_json(body: bytes) -> Any:
    """Parses a response body."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise NoetlError(f"the server's response is not valid JSON: {error}") from error


def _to_query_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _backoff_seconds(attempt: int) -> float:
    """Returns the exponential delay before a retry, with jitter."""
    delay = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 2**attempt)
    return float(delay * (0.5 + random.random() / 2))


def _to_header_dict(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _to_problem_error(error: urllib.error.HTTPError) -> ProblemError:
    """Converts an error response.

    A response without a problem document, for example from a proxy, has an empty ``code``.
    """
    header = error.headers.get("Retry-After")
    retry_after = float(header) if header and header.isdigit() else None
    try:
        problem: models.Problem = decode(models.Problem, json.loads(error.read()))
    except (ValueError, TypeError, KeyError, AttributeError, OSError, http.client.HTTPException):
        detail = f"the server responded with {error.code} {error.reason}"
        problem = models.Problem(
            type="about:blank",
            title=str(error.reason),
            status=error.code,
            detail=detail,
            code="",
            error=detail,
            message=detail,
        )
    return ProblemError(problem, retry_after)
