"""Hints for schemathesis about `/admin/v1`: ids of rows that the run has made, since most other ids lead to 404.

The run gets no id of what it depends on: the first tenant and the key that it uses. It must not freeze the
configuration, nor cause calls to other machines.
"""

import collections
import re

import schemathesis

from fuzz_hooks import chance, expect, header_of

LISTENS_TO_NOBODY = "http://127.0.0.1:9/v1"
KINDS = ["sandbox", "openai_compatible", "openai"]
CALLING_KINDS = [kind for kind in KINDS if kind != "sandbox"]
MOST_IDS = 100
ids = collections.defaultdict(list)
"""Noun of a path (`/admin/v1/cache/policies`) -> ids of what was made there, the latest ones."""

REFERENCES = {"provider_id": "/admin/v1/providers", "tenant_id": "/admin/v1/tenants", "routing_policy_id": "/admin/v1/policies"}


def is_planned(case):
    return str(case.operation.definition.raw.get("summary", "")).startswith("Planned")


def was_asked_for(case, response):
    status = response.status_code
    if status == 501:
        return is_planned(case) or case.path.endswith("/sync-models")
    if status in (502, 504) and case.path.endswith("/sync-models"):
        return True  # the provider does not answer
    return status == 504 and "X-Gateway-Min-Revision" in (case.headers or {})


expect(was_asked_for)


def noun_of(path):
    return path.split("/{")[0]


def learn(case, response):
    """After what made something: its id, and the decision that made it."""
    if case.method not in ("POST", "PUT") or response.status_code not in (200, 201) or "{" in case.path:
        return
    try:
        made = response.json().get("id")
    except (ValueError, AttributeError):
        return
    if not isinstance(made, str):
        return
    pools = [(noun_of(case.path), made)]
    if response.status_code == 201:
        pools.append(("/admin/v1/log", header_of(response, "x-gateway-revision")))
    for noun, value in pools:
        ids[noun].append(value)
        del ids[noun][:-MOST_IDS]


def tamed(body):
    """A body that means what there is, often has a name of its own, and harms nobody."""
    for field, noun in REFERENCES.items():
        if isinstance(body.get(field), str) and ids[noun] and chance.random() < 0.8:
            body[field] = chance.choice(ids[noun])
    if isinstance(body.get("base_url"), str) and re.match("https?:", body["base_url"], re.I):
        body["base_url"] = LISTENS_TO_NOBODY
    for field in ("name", "slug", "username"):
        if isinstance(body.get(field), str) and chance.random() < 0.4:
            body[field] = f"made-{chance.randrange(10**9)}"
    if body.get("kind") == "freeze":
        body["kind"] = "block"
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    pool = ids[noun_of(case.path)]
    if "id" in (case.path_parameters or {}) and pool and chance.random() < 0.85:
        case.path_parameters["id"] = chance.choice(pool)
    headers = case.headers or {}
    for name, kept in (("X-Gateway-Min-Revision", 0.02), ("If-Match", 0.2), ("Idempotency-Key", 0.1)):
        if name in headers and chance.random() > kept:
            del headers[name]
    if isinstance(case.body, dict):
        tamed(case.body)
        if case.path == "/admin/v1/providers" and isinstance(case.body.get("kind"), str) and chance.random() < 0.8:
            case.body["kind"] = chance.choice(KINDS)
        if case.path == "/admin/v1/providers" and case.body.get("kind") in CALLING_KINDS:
            case.body["base_url"] = LISTENS_TO_NOBODY  # else its vendor is called, or the name of one is waited for


@schemathesis.hook
def after_call(context, case, response):
    learn(case, response)
