"""A scripted pair that holds a conversation: it reads the prompt that it is sent, and calls tools or fills in forms by their schemas.

The engine between them and the caller is the real one. Scripted models are trusted to keep to a constraint (a forced tool call, JSON):
they are told of it in the prompt, and obey.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from relay_integrations import CueProfile, RelayEngine, RelayResult
from relay_integrations.backends.base import GenerateRequest, Prompt, RenderOptions
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.chat.messages import Message
from relay_integrations.stream import AsyncRelayStream, RelayStream

CONSTRAINTS = ("tool_choice", "parallel_tool_calls", "response_format")

THOUGHT = "<think>\nLet us see what is asked for here. So, we look at it. Then we know all of it. Thus we answer.\n</think>\n\n"
"""Reasoning with two cues of `talking_engine`."""


class TalkingBackend(ScriptedBackend):
    """Shows its model the conversation as JSON."""

    async def render(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], options: RenderOptions) -> Prompt:
        self.rendered.append((list(messages), list(tools), options))
        shown = {"messages": [m.to_template() for m in messages], "tools": list(tools), "asked": options.template.get("asked", {})}
        return Prompt(tuple(self.vocabulary.encode(json.dumps(shown, ensure_ascii=False))))

    def conversation(self, request: GenerateRequest) -> dict[str, Any]:
        """What `render` showed."""
        shown: dict[str, Any] = json.loads(self.vocabulary.bytes_of(request.ids[: request.output_start]))
        return shown


class TalkingEngine(RelayEngine):
    """Tells the models what they would be constrained to."""

    def generate(self, messages: Any, **options: Any) -> RelayResult:
        return super().generate(messages, **_told(options))

    async def agenerate(self, messages: Any, **options: Any) -> RelayResult:
        return await super().agenerate(messages, **_told(options))

    def stream(self, messages: Any, **options: Any) -> RelayStream:
        return super().stream(messages, **_told(options))

    def astream(self, messages: Any, **options: Any) -> AsyncRelayStream:
        return super().astream(messages, **_told(options))


def talking_engine(**reply: Any) -> TalkingEngine:
    """An engine over two models, "big" and "tiny", that hold a conversation; `reply` says how they speak, as in `Reply`."""
    vocabulary = Vocabulary()

    def backend(name: str) -> TalkingBackend:
        def script(so_far: str, request: GenerateRequest) -> Reply:
            whole = respond(talking.conversation(request))
            if request.constraint is not None:
                whole = whole.removeprefix(THOUGHT)
                so_far = vocabulary.bytes_of(request.ids[request.constraint_start :]).decode(errors="ignore")
            return Reply(whole[len(so_far) :] if whole.startswith(so_far) else "", **reply)

        talking = TalkingBackend(script, name=name, vocabulary=vocabulary, parameters=100 if name == "big" else 10, constraints=True)
        return talking

    return TalkingEngine(backend("big"), backend("tiny"), cue_profile=CueProfile.of("So", "Thus"))


def respond(conversation: dict[str, Any]) -> str:
    """The whole output for a conversation."""
    asked, last = conversation["asked"], conversation["messages"][-1]
    if form := asked.get("response_format"):
        schema = form.get("json_schema", {}).get("schema") or {"properties": {"setup": {}, "punchline": {}}, "type": "object"}
        return THOUGHT + json.dumps(fill(schema, last["content"]), ensure_ascii=False)
    choice, tools = asked.get("tool_choice", "auto"), conversation["tools"]
    answered = last["role"] == "tool"
    if not tools or choice == "none" or (answered and choice == "auto"):
        return f"{THOUGHT}You said: {last['content']}. That is all there is to say about it."
    named = [tool["function"] for tool in tools if tool["function"]["name"] == choice]
    tool = named[0] if named else tools[-1 if answered else 0]["function"]  # forms come behind the tools that fill them
    call = {"name": tool["name"], "arguments": fill(tool.get("parameters", {}), last["content"])}
    return f"{THOUGHT}<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def fill(schema: dict[str, Any], text: str, root: dict[str, Any] | None = None) -> Any:
    """A value that follows a schema: the first number or quoted name of the text, where one fits."""
    root = schema if root is None else root
    if "$ref" in schema:
        *_, kind, name = schema["$ref"].split("/")
        return fill(root[kind][name], text, root)
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], text, root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        return {name: fill(field, text, root) for name, field in schema.get("properties", {}).items()}
    number, quoted = re.search(r"\d+", text), re.search(r"'([^']+)'", text)
    values: dict[str, Any] = {
        "integer": int(number[0]) if number else 0,
        "number": float(number[0]) if number else 0.0,
        "boolean": False,
        "array": [],
        "string": quoted[1] if quoted else "some text",
    }
    return values[kind]


def _told(options: dict[str, Any]) -> dict[str, Any]:
    asked = {name: options[name] for name in CONSTRAINTS if options.get(name) is not None}
    return {**options, "template_options": {**(options.get("template_options") or {}), "asked": asked}} if asked else options
