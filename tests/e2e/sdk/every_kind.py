"""The official Python SDK, unchanged except for base URL and key, against every kind.

Holds one conversation with every model given on stdin.
Prints one line of JSON: for each model, for each step, null or what went wrong.
"""

import json
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import openai
from openai import OpenAI
from pydantic import BaseModel

given = json.load(sys.stdin)
client = OpenAI(base_url=given["base_url"], api_key=given["key"], max_retries=0)

PNG = given["png"]
ADDRESS = "https://example.org/cat.png"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Report(BaseModel):
    city: str
    celsius: int
    sky: Literal["clear", "grey"]


class Weather(BaseModel):
    """The weather in a city"""

    city: str


def user(text):
    return {"role": "user", "content": text}


def seen(url):
    return [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]}]


def said(answer):
    return answer.choices[0].message.content


def check_usage(usage):
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0, usage
    assert usage.total_tokens >= usage.prompt_tokens + usage.completion_tokens, usage


def refused(error_class, call, **expected):
    try:
        call()
    except error_class as error:
        for name, value in expected.items():
            assert getattr(error, name) == value, (name, getattr(error, name), value)
        return error
    raise AssertionError(f"no {error_class.__name__}")


class Conversation:
    def __init__(self, model):
        self.model = model["name"]
        self.takes = set(model["takes"])
        self.addresses = model["addresses"]
        self.forced = model["forced"]
        self.retry_after = model["retry_after"]

    def create(self, messages, **more):
        return client.chat.completions.create(model=self.model, messages=messages, **more)

    def models(self):
        assert self.model in [entry.id for entry in client.models.list()]
        model = client.models.retrieve(self.model)
        assert model.object == "model" and set(model.model_extra["gateway_capabilities"]) == self.takes, model

    def text(self):
        seed = {"seed": 7} if "seed" in self.takes else {}
        answer = self.create(
            [{"role": "system", "content": "Be brief."}, user("Hello, Grüße 👋")],
            temperature=0.5,
            max_completion_tokens=100,
            stop="END",
            user="u-1",
            extra_body={"top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1},
            **seed,
        )
        assert said(answer) == "[Be brief.] You said: Hello, Grüße 👋", answer
        assert answer.choices[0].finish_reason == "stop" and answer.object == "chat.completion"
        assert answer.model_extra["gateway"]["provider"] == self.model
        check_usage(answer.usage)

    def stream(self):
        parts, usage, finish = [], None, None
        for chunk in self.create([user("Hello, Grüße 👋")], stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
        assert "".join(parts) == "You said: Hello, Grüße 👋" and len(parts) > 3 and finish == "stop", (parts, finish)
        check_usage(usage)
        with client.chat.completions.stream(model=self.model, messages=[user("Hello")]) as stream:
            assert said(stream.get_final_completion()) == "You said: Hello"

    def tools(self):
        messages = [user("What is the weather in Oslo?")]
        if "tools" not in self.takes:
            refused(openai.BadRequestError, lambda: self.create(messages, tools=[WEATHER]), param="tools")
            return
        first = self.create(messages, tools=[WEATHER])
        [call] = first.choices[0].message.tool_calls
        assert first.choices[0].finish_reason == "tool_calls"
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Oslo"})
        messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "-3 degrees"}]
        second = self.create(messages, tools=[WEATHER])
        assert said(second) == "The tools said: -3 degrees." and second.choices[0].finish_reason == "stop", second
        messages += [second.choices[0].message, user("Thanks")]
        assert said(self.create(messages, tools=[WEATHER])) == "You said: Thanks"

    def parallel_streamed_tools(self):
        if "tools" not in self.takes:
            return
        parallel = {"parallel_tool_calls": True} if "parallel_tool" in self.takes else {}
        messages = [user("What is the weather in Oslo and in Paris?")]
        calls = {}
        for chunk in self.create(messages, tools=[WEATHER], stream=True, **parallel):
            for choice in chunk.choices:
                for delta in choice.delta.tool_calls or []:
                    call = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += delta.id or ""
                    call["name"] += delta.function.name or ""
                    call["arguments"] += delta.function.arguments or ""
        cities = [json.loads(calls[index]["arguments"])["city"] for index in sorted(calls)]
        assert cities == ["Oslo", "Paris"] and calls[0]["id"] != calls[1]["id"], calls
        with client.chat.completions.stream(model=self.model, messages=messages, tools=[WEATHER], **parallel) as stream:
            message = stream.get_final_completion().choices[0].message
        assert [json.loads(call.function.arguments)["city"] for call in message.tool_calls] == ["Oslo", "Paris"]
        # The accumulated message goes back as it is, `parsed` and all.
        messages.append(message.model_dump(exclude_unset=True))
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{call.function.name} is fine"})
        assert said(self.create(messages, tools=[WEATHER])) == "The tools said: weather is fine; weather is fine."

    def parsed_tools(self):
        if "tools" not in self.takes:
            return
        answer = client.chat.completions.parse(
            model=self.model,
            messages=[user("What is the weather in Oslo?")],
            tools=[openai.pydantic_function_tool(Weather)],
        )
        assert answer.choices[0].message.tool_calls[0].function.parsed_arguments == Weather(city="Oslo")
        choose = lambda: self.create([user("Hello")], tools=[WEATHER], tool_choice="required")
        if self.forced:
            assert choose().choices[0].message.tool_calls[0].function.name == "weather"
        else:
            refused(openai.BadRequestError, choose, param="tool_choice")

    def structured(self):
        messages = [user("Report on the sky in Oslo, as JSON")]
        as_object = lambda: self.create(messages, response_format={"type": "json_object"})
        if "json_mode" in self.takes:
            assert json.loads(said(as_object())) == {"city": "Oslo", "celsius": 21}
        else:
            refused(openai.BadRequestError, as_object, param="response_format")
        parse = lambda: client.chat.completions.parse(model=self.model, messages=messages, response_format=Report)
        if "json_schema" not in self.takes:
            refused(openai.BadRequestError, parse, param="response_format")
            return
        report = Report(city="Oslo", celsius=21, sky="clear")
        answer = parse()
        assert answer.choices[0].message.parsed == report, answer
        assert answer.model_extra["gateway"]["structured"]["valid"] is True
        with client.chat.completions.stream(model=self.model, messages=messages, response_format=Report) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == report

    def images(self):
        if "vision" not in self.takes:
            refused(openai.BadRequestError, lambda: self.create(seen(PNG)))
            return
        assert said(self.create(seen(PNG))) == "I see image/png of 70 bytes."
        if self.addresses:
            assert said(self.create(seen(ADDRESS))) == f"I see {ADDRESS}."
        else:
            refused(openai.BadRequestError, lambda: self.create(seen(ADDRESS)), param="messages[0].content[1].image_url.url")

    def failures(self):
        fail = lambda code, **more: lambda: self.create([user(f"Fail with {code}")], **more)
        limited = refused(openai.RateLimitError, fail("rate_limited"), code="rate_limited")
        assert limited.response.headers["retry-after"] == self.retry_after
        refused(openai.BadRequestError, fail("invalid_request"), code="invalid_request")
        refused(openai.AuthenticationError, fail("authentication_error"), code="authentication_error")
        refused(openai.InternalServerError, fail("upstream_error", stream=True), code="upstream_error", status_code=502)


STEPS = ["models", "text", "stream", "tools", "parallel_streamed_tools", "parsed_tools", "structured", "images", "failures"]


def converse(model):
    outcomes = {}
    for step in STEPS:
        try:
            getattr(Conversation(model), step)()
            outcomes[step] = None
        except Exception:
            outcomes[step] = traceback.format_exc()
    return outcomes


with ThreadPoolExecutor(4) as pool:
    names = [model["name"] for model in given["models"]]
    print(json.dumps(dict(zip(names, pool.map(converse, given["models"])))))
