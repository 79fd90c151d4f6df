"""What schemathesis does before each call."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """Nobody waits: what a call may wait for is never going to happen here."""
    for part in (case.query, case.body, *nested(case.body)):
        if isinstance(part, dict):
            wait = part.get("wait_ms")
            if isinstance(wait, int) and not isinstance(wait, bool) and 0 < wait <= 30_000:
                part["wait_ms"] = 0


def nested(body):
    """The wish for more work in a report."""
    return (body.get("lease"),) if isinstance(body, dict) else ()
