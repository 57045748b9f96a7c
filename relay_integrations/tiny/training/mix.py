"""What the models are trained on: problems of every kind in fixed shares, as rows of token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from relay_integrations.chat.messages import Message, ToolCall
from relay_integrations.tiny.formats import FORMATS, context, talk
from relay_integrations.tiny.tasks import FAMILIES
from relay_integrations.tiny.tasks.problem import Problem, split_of
from relay_integrations.tiny.training.drills import Piece, draw_drill

SHARES = {
    "amounts": 34,
    "queues": 16,
    "follow-up": 8,
    "system": 6,
    "no-thinking": 3,
    "calculator": 8,
    "retrieval": 11,
    "refine": 6,
    "condense": 2,
    "any-tool": 3,
    "form": 2,
    "small-talk": 1,
}
"""Share of the problems by kind, in percent."""

LATE = 0.7
"""From this share of the training on, as many long problems as short ones, and half of the drills."""

_EARLY_STEPS = (1, 1, 1, 2, 2, 2, 3, 3, 4, 5)
_LATE_STEPS = (1, 2, 3, 3, 4, 4, 5, 5, 6)


@dataclass(frozen=True, slots=True)
class Document:
    """One training text.

    Attributes:
        ids: Token ids.
        learned: For each id, whether the model is to learn to write it.
    """

    ids: list[int]
    learned: list[bool]


def draw_problem(rng: Random, late: bool = True) -> Problem:
    """Draws a problem of the train split, of a kind drawn by `SHARES`."""
    kind = rng.choices(tuple(SHARES), tuple(SHARES.values()))[0]
    while True:
        if kind in FAMILIES:
            problem, skeleton = FAMILIES[kind](rng, rng.choice(_LATE_STEPS if late else _EARLY_STEPS))
        else:
            problem, skeleton = FORMATS[kind](rng)
        if split_of(skeleton) == "train":
            return problem


def draw_long(rng: Random, tokenizer: Any, room: int) -> list[Document]:
    """Draws one document of at most `room` ids, as near to it as one gets: much context, or many turns."""
    found: Document | None = None
    kind, size = rng.choice((context.retrieval, talk.follow_up)), 12
    while True:
        problem, skeleton = kind(rng, size)
        if split_of(skeleton) != "train":
            continue
        document = encode(tokenizer, problem)
        if len(document.ids) > room:
            return [] if found is None else [found]
        found, size = document, size * 3 // 2


def draw_documents(rng: Random, tokenizer: Any, n: int, drills: float, late: bool) -> list[Document]:
    """Draws `n` problems with the drills that go with them, shuffled.

    Args:
        rng: Draws everything.
        tokenizer: With its chat template.
        n: Problems.
        drills: Drills for each problem. They are short, and so fill the rows up.
        late: Whether the training is in its last part.
    """
    documents = [encode(tokenizer, draw_problem(rng, late)) for _ in range(n)]
    documents += [_encode(tokenizer, draw_drill(rng)) for _ in range(int(n * drills * (0.5 if late else 1)))]
    rng.shuffle(documents)
    return documents


def encode(tokenizer: Any, problem: Problem) -> Document:
    """A problem as the model will see it: its prompt through the chat template, and the responses to learn."""
    return _encode(tokenizer, list(_pieces(tokenizer, problem)))


def _encode(tokenizer: Any, pieces: list[Piece]) -> Document:
    encoded = tokenizer([text for text, _ in pieces], add_special_tokens=False, verbose=False)["input_ids"]
    ids = [i for piece in encoded for i in piece]
    learned = [learn for piece, (_, learn) in zip(encoded, pieces, strict=True) for _ in piece]
    return Document(ids, learned)


def _pieces(tokenizer: Any, problem: Problem) -> Iterator[Piece]:
    """The texts of a conversation in order, each with whether it is to be learned."""
    messages = problem.messages
    rendered = _render(tokenizer, problem, messages)
    yield rendered, False
    shown = rendered
    text = problem.trace
    for exchange in problem.exchanges:
        yield text + tokenizer.eos_token, True
        shown += text + tokenizer.eos_token
        messages = [*messages, assistant_message(text), *(Message(role="tool", content=result) for result in exchange.results)]
        rendered = _render(tokenizer, problem, messages)
        if not rendered.startswith(shown):
            raise ValueError(
                f"the chat template writes a turn otherwise than the model: {rendered[-400:]!r} does not go on {shown[-200:]!r}"
            )
        yield rendered[len(shown) :], False
        shown, text = rendered, exchange.text
    yield text + tokenizer.eos_token, True


def _render(tokenizer: Any, problem: Problem, messages: list[Message]) -> str:
    text: str = tokenizer.apply_chat_template(
        [message.to_template() for message in messages],
        tools=list(problem.tools) or None,
        add_generation_prompt=True,
        tokenize=False,
        enable_thinking=problem.thinking,
    )
    return text


def assistant_message(text: str) -> Message:
    """A response read back into the message that a caller would send with the tools' results."""
    reasoning, _, rest = text.partition("</think>")
    content, *calls = rest.strip().split("<tool_call>")
    read = []
    for number, call in enumerate(calls):
        data = json.loads(call.partition("</tool_call>")[0])
        read.append(ToolCall(id=f"call_{number}", name=data["name"], arguments=json.dumps(data["arguments"], ensure_ascii=False)))
    reasoning = reasoning.removeprefix("<think>").strip("\n")
    return Message(role="assistant", content=content.strip(), reasoning=reasoning, tool_calls=tuple(read))
