"""The conversation as the relay takes it: our own message type, and OpenAI-style dicts read into it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from relay_integrations.errors import MessageError, NotSupported
from relay_integrations.validation import explain, without_surrogates

MessageRole = Literal["system", "user", "assistant", "tool"]


class ToolCall(BaseModel):
    """A call of a tool, as the model wrote it.

    Attributes:
        id: Unique within the conversation.
        name: The tool's name; empty where the model's markup could not be read.
        arguments: JSON text, kept as written even where it is not valid JSON.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    arguments: str = "{}"

    @field_validator("id", "name", "arguments", mode="after")
    @classmethod
    def _no_surrogates(cls, text: str) -> str:
        return without_surrogates(text)

    @property
    def valid(self) -> bool:
        """Whether the call has a name and its arguments are a JSON object."""
        try:
            return bool(self.name) and isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


class Message(BaseModel):
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: Its text; may be empty on an assistant message that only calls tools.
        reasoning: Earlier reasoning of an assistant message; each chat template keeps or drops it as it says.
        tool_calls: Calls made by an assistant message.
        tool_call_id: On a tool message: the call that it answers.
        name: Optional name of the speaker or tool.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: MessageRole
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_openai(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        data = dict(data)
        if data.get("role") == "developer":
            data["role"] = "system"
        for alias in ("reasoning_content",):
            if alias in data:
                data.setdefault("reasoning", data.pop(alias))
        for unused in ("refusal", "audio", "function_call", "annotations"):
            if not data.get(unused):
                data.pop(unused, None)
        data["content"] = _content_text(data.get("content"))
        calls = data.get("tool_calls") or ()
        data["tool_calls"] = tuple(_read_call(call) for call in calls) if isinstance(calls, (list, tuple)) else calls
        return data

    @field_validator("content", "reasoning", "name", mode="after")
    @classmethod
    def _no_surrogates(cls, text: str | None) -> str | None:
        return text if text is None else without_surrogates(text)

    @model_validator(mode="after")
    def _check(self) -> Message:
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a {self.role} message cannot have tool_calls")
        return self

    def to_template(self) -> dict[str, Any]:
        """The dict that a Hugging Face chat template expects, with arguments as objects where they are valid JSON."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning is not None:
            data["reasoning_content"] = self.reasoning
        if self.tool_calls:
            data["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": json.loads(c.arguments) if c.valid else c.arguments},
                }
                for c in self.tool_calls
            ]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            data["name"] = self.name
        return data


class Tool(BaseModel):
    """A tool in OpenAI's format, checked; what the model may call."""

    model_config = ConfigDict(extra="allow", frozen=True)

    class Function(BaseModel):
        """Name, description and JSON schema of the arguments."""

        model_config = ConfigDict(extra="allow", frozen=True)
        name: str = Field(min_length=1)
        description: str | None = None
        parameters: dict[str, Any] | None = None

    type: Literal["function"] = "function"
    function: Function


MessagesInput = str | Sequence[Message | Mapping[str, Any]]


def read_messages(messages: MessagesInput) -> list[Message]:
    """Reads what a caller passed as the conversation.

    Args:
        messages: A plain string (one user message), or messages as `Message` or OpenAI-style dicts.

    Raises:
        MessageError: Malformed, or nothing that can be answered; names the message by its number.
        NotSupported: A message holds an image or other media.
    """
    read = parse_messages(messages)
    if not read:
        raise MessageError("messages is empty: pass at least one user message")
    if not any(m.role in ("user", "tool") for m in read):
        raise MessageError("messages holds no user message: there is nothing to answer")
    if read[-1].role == "assistant":
        raise MessageError("the last message is the assistant's: end with a user or tool message (continuing a message is not supported)")
    if not any(m.content.strip() or m.tool_calls for m in read):
        raise MessageError("every message is blank: give the model something to answer")
    return read


def parse_messages(messages: MessagesInput) -> list[Message]:
    """As `read_messages`, for any part of a conversation: whether it can be answered is not checked."""
    if isinstance(messages, str):
        return parse_messages([{"role": "user", "content": messages}])
    if isinstance(messages, (Mapping, Message, bytes)) or not isinstance(messages, Sequence):
        raise MessageError(
            f"messages must be a string or a list of messages, not {type(messages).__name__}; put a single message in a list"
        )
    return [_read_message(i, cast("Message", m)) for i, m in enumerate(messages)]


def read_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Checks tools in OpenAI's format and returns them as plain dicts.

    Raises:
        MessageError: Names the tool by its number and says what is wrong.
    """
    read = []
    for i, tool in enumerate(tools or ()):
        try:
            checked = Tool.model_validate(tool)
        except ValidationError as e:
            raise MessageError(f"tools[{i}] is not an OpenAI-style function tool: {explain(e)}") from e
        plain = checked.model_dump(exclude_none=True)
        try:
            without_surrogates(json.dumps(plain, ensure_ascii=False, default=str))
        except ValueError as e:
            raise MessageError(f"tools[{i}] ({checked.function.name!r}) cannot be shown to a model: {e}") from e
        read.append(plain)
    return read


def _read_message(number: int, message: Message | Mapping[str, Any]) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise MessageError(
            f"messages[{number}] is a {type(message).__name__}; use a dict with role and content, or relay_integrations.Message"
        )
    try:
        return Message.model_validate(message)
    except ValidationError as e:
        raise MessageError(f"messages[{number}] is malformed: {explain(e)}") from e


def _content_text(content: Any) -> Any:
    """The text of OpenAI-style content: a string, None, or a list of text parts."""
    if content is None:
        return ""
    if isinstance(content, Sequence) and not isinstance(content, (str, bytes)):
        return "".join(_part_text(part) for part in content)
    return content


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise NotSupported("relay", f"message content of type {kind!r}", "send text only; both models read text alone")


def _read_call(call: Any) -> Any:
    if not isinstance(call, Mapping) or "function" not in call:
        return call
    function = call["function"]
    arguments = function.get("arguments", "{}") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        return call  # what it is not, its check will say
    return {"id": call.get("id") or "", "name": function.get("name") or "", "arguments": text}
