"""How families of models write tool calls. A new way is one entry here, and a section reader if none of them fits."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from relay_integrations.chat.sections import MistralSection, ObjectSection, Section, TaggedSection
from relay_integrations.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way to write tool calls.

    Attributes:
        name: As in `tool_format="…"`.
        section: Reads the calls behind what opened them.
        marks: Texts that open calls anywhere in the answer.
        bare: Whether an answer may begin with a call that nothing opens: a JSON object.
        tokens: Markup that counts as text even where a vocabulary calls its tokens special.
        before, behind: The text around the arguments of a call, as the models were trained to write it; `{name}` is the tool's name.
        opening, closing, separator: The text around all calls and between them.
        several: Whether the family's chat templates take several calls in one turn.
        short_ids: Whether they take only ids of nine letters and digits.
    """

    name: str
    section: Callable[[], Section]
    marks: tuple[str, ...]
    tokens: tuple[str, ...]
    before: str
    behind: str
    opening: str = ""
    closing: str = ""
    separator: str = ""
    bare: bool = False
    several: bool = True
    short_ids: bool = False

    def before_arguments(self, tool: str) -> str:
        """The text in front of the arguments of a call of this tool."""
        return self.before.replace("{name}", json.dumps(tool, ensure_ascii=False)[1:-1])


HERMES = ToolFormat(
    name="hermes",
    section=TaggedSection,
    marks=("<tool_call>",),
    tokens=("<tool_call>", "</tool_call>"),
    before='<tool_call>\n{"name": "{name}", "arguments": ',
    behind="}\n</tool_call>",
    separator="\n",
)
"""Hermes and Qwen."""

LLAMA = ToolFormat(
    name="llama",
    section=ObjectSection,
    marks=("<|python_tag|>",),
    tokens=("<|python_tag|>",),
    before='{"name": "{name}", "parameters": ',
    behind="}",
    separator="; ",
    bare=True,
    several=False,
)
"""Llama 3.x: the bare JSON of a call, perhaps behind a tag."""

MISTRAL = ToolFormat(
    name="mistral",
    section=MistralSection,
    marks=(MistralSection.MARK,),
    tokens=(MistralSection.MARK, "[CALL_ID]", "[ARGS]"),
    before="[TOOL_CALLS]{name}[ARGS]",
    behind="",
    short_ids=True,
)
"""Mistral models since late 2025. It reads the older way too."""

MISTRAL_LIST = ToolFormat(
    name="mistral-list",
    section=MistralSection,
    marks=(MistralSection.MARK,),
    tokens=(MistralSection.MARK,),
    before='{"name": "{name}", "arguments": ',
    behind="}",
    opening="[TOOL_CALLS][",
    closing="]",
    separator=", ",
    short_ids=True,
)
"""Older Mistral models: a list of calls."""

TOOL_FORMATS: dict[str, ToolFormat] = {f.name: f for f in (HERMES, LLAMA, MISTRAL, MISTRAL_LIST)}


def find_tool_format(name: str) -> ToolFormat:
    """The format of a name.

    Raises:
        ConfigError: There is none; names those that there are.
    """
    if name not in TOOL_FORMATS:
        raise ConfigError(f"unknown tool_format {name!r}; there are: {', '.join(TOOL_FORMATS)}")
    return TOOL_FORMATS[name]


def call_id(key: int, choice: int, index: int, *, short: bool = False) -> str:
    """The id of a choice's n-th call, the same in every repetition; `short` as in `ToolFormat.short_ids`."""
    if short:
        return hashlib.blake2b(f"{key}:{choice}:{index}".encode(), digest_size=5).hexdigest()[:9]
    return f"call_{key:012x}{choice:x}{index:02x}"


def tool_format_of(template: str) -> ToolFormat:
    """The format that the source of a chat template shows; Hermes where it shows none."""
    if "[ARGS]" in template:
        return MISTRAL
    if MistralSection.MARK in template:
        spaced = f"{MistralSection.MARK} ["
        return dataclasses.replace(MISTRAL_LIST, opening=spaced) if spaced in template else MISTRAL_LIST
    asks_for_json = '{"name": function name, "parameters"' in template
    return LLAMA if "<tool_call>" not in template and (asks_for_json or "<|python_tag|>" in template) else HERMES
