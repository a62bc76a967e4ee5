"""The official Python SDK against Gatelog, unchanged except for base URL and key.

Prints one line of JSON with what it received.
"""

import json
import os

import openai
from openai import OpenAI

client = OpenAI(base_url=os.environ["GATELOG_BASE_URL"], api_key=os.environ["GATELOG_KEY"], max_retries=0)
model = "sandbox-echo"
seen = {}

answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello from Python"}])
seen["text"] = answer.choices[0].message.content
seen["finish_reason"] = answer.choices[0].finish_reason
seen["total_tokens"] = answer.usage.total_tokens
seen["provider"] = answer.model_extra["gateway"]["provider"]

parts, usage = [], None
for chunk in client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "Streamed, please: déjà vu"}],
    stream=True,
    stream_options={"include_usage": True},
):
    if chunk.choices and chunk.choices[0].delta.content:
        parts.append(chunk.choices[0].delta.content)
    usage = chunk.usage or usage
seen["streamed"] = "".join(parts)
seen["chunks"] = len(parts)
seen["stream_tokens"] = usage.total_tokens

tools = [{
    "type": "function",
    "function": {"name": "weather", "description": "The weather in a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}]
called = client.chat.completions.create(model="sandbox-tools", messages=[{"role": "user", "content": "Weather in Oslo?"}], tools=tools)
seen["tool"] = called.choices[0].message.tool_calls[0].function.name
seen["tool_arguments"] = json.loads(called.choices[0].message.tool_calls[0].function.arguments)

errors = {}
try:
    client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}])
except openai.NotFoundError as error:
    errors["model"] = [error.status_code, error.code, error.param]
try:
    client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}], extra_body={"top_k": 0})
except openai.BadRequestError as error:
    errors["top_k"] = [error.status_code, error.code, error.param]
try:
    OpenAI(base_url=os.environ["GATELOG_BASE_URL"], api_key="gw_live_" + "0" * 43, max_retries=0).models.list()
except openai.AuthenticationError as error:
    errors["key"] = [error.status_code, error.code, error.param]
seen["errors"] = errors

seen["models"] = [entry.id for entry in client.models.list()]
seen["model"] = client.models.retrieve(model).id
print(json.dumps(seen))
