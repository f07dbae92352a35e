"""Hooks of schemathesis: a claim that may wait does so for a second, where the schema allows a minute."""

import schemathesis

WAIT_MS = 1_000
WAIT_MS_MAX = 60_000  # of the API: what is above must still be refused


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int) and WAIT_MS < body["wait_ms"] <= WAIT_MS_MAX:
        case.body = {**body, "wait_ms": WAIT_MS}
