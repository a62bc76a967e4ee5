"""The checks of every single answer, for each fuzzed part.

`fuzz_inference` and `fuzz_admin` hold the hints for schemathesis beyond the document. Every failure is the one envelope
with its headers; no answer is a 5xx that the request did not cause. The counts go to $FUZZ_COUNTS.
"""

import atexit
import collections
import json
import os
import random

import schemathesis

counts = collections.Counter()
flaws = []

CODES = {
    400: {"invalid_request", "context_length_exceeded", "content_filtered"},
    401: {"authentication_error"},
    402: {"quota_exceeded"},
    403: {"permission_error"},
    404: {"not_found"},
    405: {"invalid_request"},
    409: {"invalid_request"},
    413: {"invalid_request"},
    415: {"invalid_request"},
    429: {"rate_limited"},
    501: {"not_implemented"},
    502: {"upstream_error", "provider_unavailable"},
    504: {"timeout"},
}
chance = random.Random(int(os.environ.get("FUZZ_SEED", "1")))
expected = []


def expect(told):
    """`told(case, response)`: whether this 5xx is what the request asked for."""
    expected.append(told)


def header_of(response, name):
    return (response.headers.get(name) or [None])[0]


def envelope_flaw(response):
    try:
        body = response.json()
    except ValueError:
        return "no JSON"
    error, gateway = body.get("error"), body.get("gateway")
    if not isinstance(error, dict) or not isinstance(gateway, dict):
        return "no error, or no gateway block"
    if not isinstance(error.get("message"), str) or error["message"] == "" or not isinstance(error.get("type"), str):
        return "no message, or no type"
    if set(error) != {"message", "type", "param", "code", "details"}:
        return f"other members: {sorted(error)}"
    if error.get("code") not in CODES.get(response.status_code, set()):
        return f"the code {error.get('code')} does not belong to the status"
    retryable = header_of(response, "x-gateway-retryable")
    if retryable not in ("true", "false") or header_of(response, "x-should-retry") != retryable:
        return "no word on whether to retry"
    if header_of(response, "x-request-id") != gateway.get("request_id") or not header_of(response, "x-trace-id"):
        return "ids are missing, or differ"
    return None


@schemathesis.check
def every_answer(ctx, response, case):
    counts["requests"] += 1
    status = response.status_code
    counts[f"status {status}"] += 1
    where = f"{case.method} {case.path} -> {status}"
    if status >= 500 and not any(told(case, response) for told in expected):
        counts["unexpected 5xx"] += 1
        flaws.append(f"{where}: {response.text[:300]} for {str(case.body)[:500]}")
        raise AssertionError("an unexpected 5xx")
    flaw = envelope_flaw(response) if status >= 400 else None
    if flaw is not None:
        counts["outside the envelope"] += 1
        flaws.append(f"{where}: {flaw}: {response.text[:300]} for {str(case.body)[:500]}")
        raise AssertionError(f"outside the envelope: {flaw}")


@atexit.register
def report():
    path = os.environ.get("FUZZ_COUNTS")
    if path and counts:
        with open(path, "w") as file:
            json.dump({"counts": counts, "flaws": flaws[:50]}, file)
