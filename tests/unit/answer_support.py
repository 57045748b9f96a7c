"""What the tests of constrained answers share: pairs that think freely and answer as they are held to."""

from __future__ import annotations

from typing import Any

from relay_integrations import RelayEngine
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, Script, ScriptedBackend, Vocabulary
from relay_integrations.chat.tool_formats import HERMES, ToolFormat
from tests.unit.support import WEATHER as WEATHER
from tests.unit.support import relay

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "St. Ives. So, {1}"}}\n</tool_call>'
LLAMA_CALL = '{"name": "weather", "parameters": {"city": "Oslo"}}'
JSON = '{"city": "St. Ives", "degrees": 12}'
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "report", "schema": SCHEMA}}
THINK = "<think>\nWe think a while. So, ask. Then on.\n</think>"


def held(vocabulary: Vocabulary, free: str, answer: str = CALL, **reply: Any) -> Script:
    """A script that says `free` where nothing holds it, and the answer where it has to; both from wherever they stand."""

    def script(so_far: str, request: GenerateRequest) -> Reply:
        text, said = free, so_far
        if request.constraint is not None:
            text, said = answer, vocabulary.bytes_of(request.ids[request.constraint_start :]).decode(errors="ignore")
        return Reply(text[len(said) :] if text.startswith(said) else "", **reply)

    return script


def pair(
    free: str = THINK + "\n\nIt is warm.",
    answer: str = CALL,
    *,
    small_answer: str | None = None,
    shared: bool = True,
    split: Any = "words",
    formats: tuple[ToolFormat, ToolFormat] = (HERMES, HERMES),
    replies: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    **options: Any,
) -> list[ScriptedBackend]:
    """Two backends that think `free` and answer as they are held to; with one vocabulary, or each with its own."""
    vocabularies = [Vocabulary(split)] * 2 if shared else [Vocabulary(split, "big"), Vocabulary("chars", "tiny")]
    answers = (answer, answer if small_answer is None else small_answer)
    return [
        ScriptedBackend(held(v, free, a, **reply), name=name, vocabulary=v, tool_format=form, **{"constraints": True, **options})
        for name, v, a, form, reply in zip(("big", "tiny"), vocabularies, answers, formats, replies, strict=True)
    ]


def answering(
    free: str = THINK + "\n\nIt is warm.", answer: str = CALL, *, policy: Any = "relaygen", rules: Any = None, **options: Any
) -> RelayEngine:
    """An engine over `pair`."""
    return relay(*pair(free, answer, **options), policy=policy, on_failure=rules)


def constrained(backend: ScriptedBackend) -> list[GenerateRequest]:
    """The requests that had to follow a constraint."""
    return [request for request in backend.requests if request.constraint is not None]


def beginnings(backend: ScriptedBackend) -> list[str]:
    """What stood of the answer at each such request."""
    return [backend.vocabulary.bytes_of(r.ids[r.constraint_start :]).decode() for r in constrained(backend)]
