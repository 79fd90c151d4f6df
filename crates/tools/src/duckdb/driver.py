"""Runs the statements of a `duckdb` task.

The worker passes this code to a python interpreter, with its `request` as the input. Results have plain
values; the worker gives them their final form.
"""

import base64
import datetime
import json
import os
import re
import resource
import sys
import time
import types

try:
    import duckdb
except ImportError as error:
    duckdb, missing = None, str(error)

ROWS_PER_FETCH = 1000
LOCK_RETRY_SECONDS = 0.05
# Options of a secret, by the names of the fields of a credential.
SECRET_OPTIONS = {
    "postgres": {
        "db_host": "host",
        "db_port": "port",
        "db_user": "user",
        "db_password": "password",
        "db_name": "database",
    },
    "http": {"token": "bearer_token"},
}
SECRET_TYPES = {"bearer": "http", "bearer_token": "http"}
# The first class of an exception that is in this list determines the kind of the error.
ERROR_KINDS = {
    "ConstraintException": "db_constraint",
    "PermissionException": "auth",
    "OutOfMemoryException": "limit",
}


class TaskFailure(Exception):
    """A failure with a kind of its own."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Utc(datetime.tzinfo):
    """The time zone of results. DuckDB takes time zones from the package pytz, which it lacks."""

    def utcoffset(self, _):
        return datetime.timedelta(0)

    dst = utcoffset

    def tzname(self, _):
        return "UTC"

    def localize(self, value):
        return value.replace(tzinfo=self)


def connect():
    """Opens the database. Another process may hold the lock of its file for a while."""
    settings = {}
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if limit != resource.RLIM_INFINITY and limit < memory:
        settings["memory_limit"] = "%dB" % (limit * 3 // 4)
    deadline = time.monotonic() + request["busy_seconds"]
    while True:
        try:
            return duckdb.connect(request["database"], request["readonly"], settings)
        except duckdb.IOException as error:
            if "lock on file" not in str(error):
                raise TaskFailure("db_connection", str(error)) from error
            if time.monotonic() > deadline:
                raise TaskFailure("db_timeout", str(error)) from error
        time.sleep(LOCK_RETRY_SECONDS)


def create_secret(connection, name, credential):
    """Makes a credential available to `ATTACH` and to file functions, without its values in SQL."""
    kind = credential.get("type", "")
    kind = SECRET_TYPES.get(kind, kind)
    names = SECRET_OPTIONS.get(kind, {})
    options = {names.get(key, key): value for key, value in credential.items() if key != "type"}
    if not all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", word) for word in [kind, *options]):
        raise TaskFailure("auth", "the credential has a type or a field that is not a plain name")
    quoted = '"%s"' % name.replace('"', '""') if name else ""
    texts = ["type %s" % kind] + ["%s $%d" % (key, i) for i, key in enumerate(options, 1)]
    values = [value if isinstance(value, (str, bool)) else str(value) for value in options.values()]
    try:
        connection.execute("CREATE SECRET %s (%s)" % (quoted, ", ".join(texts)), values)
    except duckdb.Error as error:
        message = "the credential %s cannot be used: %s" % (quoted, error)
        raise TaskFailure("auth", message) from error


def plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def is_count(statement, cursor):
    """Returns True if the statement returns the number of changed rows instead of rows."""
    expected = statement.expected_result_type
    if isinstance(expected, list) and duckdb.ExpectedResultType.CHANGED_ROWS not in expected:
        return duckdb.ExpectedResultType.QUERY_RESULT not in expected
    is_named_count = [column[0] for column in cursor.description or ()] == ["Count"]
    return not cursor.description or is_named_count and "returning" not in statement.query.lower()


def fetch_rows(cursor, budget):
    columns = [column[0] for column in cursor.description]
    documents = [i for i, column in enumerate(cursor.description) if str(column[1]) == "JSON"]
    rows = []
    while True:
        chunk = [[plain(value) for value in row] for row in cursor.fetchmany(ROWS_PER_FETCH)]
        if not chunk:
            return {"columns": columns, "rows": rows}
        for row in chunk:
            for i in documents:
                row[i] = None if row[i] is None else json.loads(row[i])
        budget[0] -= len(json.dumps(chunk, ensure_ascii=False))
        if budget[0] < 0:
            raise TaskFailure("limit", request["too_large"])
        rows += chunk


def run_statements(connection, results):
    budget = [request["max_bytes"]]
    if request["transaction"]:
        connection.execute("BEGIN")
    for text, params in request["statements"]:
        for statement in connection.extract_statements(text):
            cursor = connection.execute(statement, params or None)
            if is_count(statement, cursor):
                counts = cursor.fetchall() if cursor.description else []
                is_number = counts and type(counts[0][0]) is int
                results.append({"count": counts[0][0] if is_number else 0})
            else:
                results.append(fetch_rows(cursor, budget))
    if request["transaction"]:
        connection.execute("COMMIT")


def run(results):
    module = types.ModuleType("pytz")
    module.timezone = lambda _: Utc()
    sys.modules["pytz"] = module
    connection = connect()
    try:
        for name, credential in request["secrets"]:
            create_secret(connection, name, credential)
        run_statements(connection, results)
    finally:
        connection.close()


def main():
    if duckdb is None:
        return {"missing": missing}
    results = []
    try:
        run(results)
    except TaskFailure as error:
        return {"results": results, "error": {"kind": error.kind, "message": str(error)}}
    except duckdb.Error as error:
        name = type(error).__name__
        kind = ERROR_KINDS.get(name, "db_error")
        message = str(error).strip()
        return {"results": results, "error": {"kind": kind, "message": message, "code": name}}
    return {"results": results, "error": None}
