"""Hints for schemathesis about `/v1`: names of existing models, and intent headers only now and then."""

import schemathesis

from fuzz_hooks import chance, expect

PLANNED = {"/v1/completions", "/v1/embeddings", "/v1/responses"}
MODELS = ["sandbox-echo", "sandbox-tools", "sandbox-json"]

expect(lambda case, response: response.status_code == 501 and case.path in PLANNED)


@schemathesis.hook
def map_body(context, body):
    """Of bodies that name some model, most name one that there is: else little would be reached but 404."""
    if isinstance(body, dict) and isinstance(body.get("model"), str) and chance.random() < 0.8:
        return {**body, "model": chance.choice(MODELS)}
    return body


@schemathesis.hook
def map_headers(context, headers):
    """Intent is tried now and then: a policy or a scope that does not exist ends most requests."""
    if headers and chance.random() < 0.7:
        return {name: value for name, value in headers.items() if not name.startswith("X-Gateway-")}
    return headers
