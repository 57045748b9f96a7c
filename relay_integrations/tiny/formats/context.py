"""Answers from retrieved context, in LlamaIndex's prompts: question answering, refining an answer, condensing a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from relay_integrations.chat.messages import Message
from relay_integrations.tiny.formats.frameworks import fill
from relay_integrations.tiny.tasks import amounts
from relay_integrations.tiny.tasks.problem import Problem

RETRIEVAL, REFINE, CONDENSE = "retrieval", "refine", "condense"

UNKNOWN = "I do not know."

_CITIES = "Paris Rome London Berlin Madrid Vienna Oslo Dublin Lisbon Prague Athens Boston".split()
_FACTS = ("{name} owns {items}, {n} of them.", "The number of {items} that {name} has is {n}.", "{name} keeps {items}, {n} in all.")
_NOISE = ("{name} lives in {city}.", "{name} likes {items}.", "The shop of {name} is in {city}.", "{name} moved to {city} last year.")
_FILES = ("notes.txt", "list.md", "report.txt", "people.txt")


@dataclass(frozen=True, slots=True)
class _Fact:
    name: str
    items: str
    n: int
    sentence: str

    @property
    def question(self) -> str:
        return f"How many {self.items} does {self.name} have?"

    @property
    def answer(self) -> str:
        return f"{self.name} has {self.n} {self.items}."


def retrieval(rng: Random, size: int | None = None) -> tuple[Problem, object]:
    """A question whose answer stands in the context, or follows from two facts there, or does not stand there.

    Args:
        rng: Draws everything.
        size: Number of sentences, at least 2; a few if None. What goes beyond the kinds of things is beside the point.
    """
    size = size or rng.randint(2, 5)
    facts = _draw_facts(rng, min(size, len(amounts.ITEMS)))
    asked = facts[0]
    kind = rng.choice(("one", "one", "one", "two", "none"))
    about = f"{asked.items} of {asked.name}"
    if kind == "two":
        asked, other = _pair(rng, asked, facts[1])
        facts[:2] = asked, other
        total = asked.n + other.n
        about = f"{asked.items} and the {other.items} of {asked.name}"
        query = f"How many {asked.items} and {other.items} does {asked.name} have together?"
        found = f"{asked.sentence} {other.sentence} Then, {asked.n}+{other.n}={total}. So, the answer is {total}."
        text, answer = f"Together, {asked.name} has {total} {asked.items} and {other.items}.", str(total)
    elif kind == "one":
        query, found, text, answer = asked.question, f"{asked.sentence} So, the answer is {asked.n}.", asked.answer, str(asked.n)
    else:
        facts = facts[1:]
        query, found, text, answer = asked.question, "Nothing about that. So, the answer is not known.", UNKNOWN, "not know"
    shown = list(facts)
    rng.shuffle(shown)
    messages = _ask(rng, _context(rng, shown, max(0, size - len(amounts.ITEMS))), query)
    trace = f"<think>\nThe question is about the {about}. The context says: {found}\n</think>\n\n{text}"
    skeleton = (RETRIEVAL, query, tuple(fact.n for fact in facts))
    return _problem(RETRIEVAL, messages, answer, trace), skeleton


def refine(rng: Random) -> tuple[Problem, object]:
    """An answer that new context changes, or does not."""
    facts = _draw_facts(rng, rng.randint(2, 4))
    asked, rest = facts[0], facts[1:]
    helps = rng.random() < 0.5
    if helps:
        existing = rng.choice((UNKNOWN, f"{asked.name} has {rng.randint(2, 99)} {asked.items}."))
        found, text = f"{asked.sentence} So, the answer is {asked.n}.", asked.answer
        rest.insert(rng.randrange(len(rest) + 1), asked)
    else:
        existing = rng.choice((asked.answer, asked.answer, UNKNOWN))
        found, text = "Nothing about that. So, the answer stays.", existing
    messages = fill("refine", context_msg=_context(rng, rest), query_str=asked.question, existing_answer=existing)
    trace = f"<think>\nThe question is about the {asked.items} of {asked.name}. The context says: {found}\n</think>\n\n{text}"
    answer = "not know" if text == UNKNOWN else str(asked.n)
    return _problem(REFINE, messages, answer, trace), (REFINE, asked.question, asked.n, helps, tuple(fact.n for fact in rest))


def condense(rng: Random) -> tuple[Problem, object]:
    """A follow-up that only makes sense in its conversation, to be asked so that it stands alone."""
    facts = _draw_facts(rng, rng.randint(1, 3))
    last = facts[-1]
    history = "\n".join(f"user: {fact.question}\nassistant: {fact.answer}" for fact in facts)
    if rng.random() < 0.5:
        other = rng.choice([name for name in amounts.NAMES if name != last.name])
        ask, about = rng.choice((f"And {other}?", f"What about {other}?", f"And how many does {other} have?")), other
        text = f"How many {last.items} does {other} have?"
    else:
        items = rng.choice([items for items in amounts.ITEMS if items != last.items])
        ask, about = rng.choice((f"And {items}?", f"What about {items}?", f"And how many {items}?")), items
        text = f"How many {items} does {last.name} have?"
    messages = fill(rng.choice(("condense_question", "condense_plus_context")), chat_history=history, question=ask)
    trace = f"<think>\nThe last question was: {last.question} Now it is about {about}.\n</think>\n\n{text}"
    return _problem(CONDENSE, messages, text, trace), (CONDENSE, tuple(fact.question for fact in facts), about)


def draw_lookups(rng: Random) -> list[tuple[str, bool]]:
    """Draws a context and four questions about it, for practice: pieces of text, each with whether it is to be learned."""
    facts = _draw_facts(rng, rng.randint(4, 8))
    absent, shown = facts[0], facts[1:]
    pieces = [(_context(rng, shown) + "\n", False)]
    for asked in rng.sample([*rng.sample(shown, 3), absent], 4):
        found = asked.sentence if asked is not absent else "Nothing about that."
        pieces += [(f"\nThe question is about the {asked.items} of {asked.name}. The context says:", False), (f" {found}", True)]
    return pieces


def _problem(family: str, messages: list[Message], answer: str, trace: str) -> Problem:
    return Problem(family, messages[-1].content, answer, trace, 1, tuple(messages[:-1]), grading="whole")


def _ask(rng: Random, context: str, query: str) -> list[Message]:
    """The messages of a query engine or a chat engine."""
    template = rng.choice(("qa", "qa", "tree_summarize", "context_chat", "context_chat_plus"))
    if template.startswith("context_chat"):
        return [*fill(template, context_str=context), Message(role="user", content=query)]
    return fill(template, context_str=context, query_str=query)


def _draw_facts(rng: Random, n: int) -> list[_Fact]:
    """Facts about amounts of `n` different things of different people."""
    pairs = zip(rng.sample(amounts.NAMES, n), rng.sample(amounts.ITEMS, n), strict=True)
    return [_fact(rng, name, items, rng.choice((99, 99, 999, 9999))) for name, items in pairs]


def _fact(rng: Random, name: str, items: str, most: int) -> _Fact:
    n = rng.randint(2, most)
    return _Fact(name, items, n, rng.choice(_FACTS).format(name=name, items=items, n=n))


def _pair(rng: Random, fact: _Fact, other: _Fact) -> tuple[_Fact, _Fact]:
    """One person's amounts of two things, whose sum has two digits."""
    return _fact(rng, fact.name, fact.items, 50), _fact(rng, fact.name, other.items, 49)


def _context(rng: Random, facts: list[_Fact], more: int = 0) -> str:
    """The facts with some sentences of noise around them, and `more` of them beside these, in chunks as a retriever returns them."""
    sentences = [fact.sentence for fact in facts]
    for _ in range(more + rng.randint(0, 4 + len(facts) // 4)):
        noise = rng.choice(_NOISE).format(name=rng.choice(amounts.NAMES), items=rng.choice(amounts.ITEMS), city=rng.choice(_CITIES))
        sentences.insert(rng.randrange(len(sentences) + 1), noise)
    chunks: list[list[str]] = [[]]
    for sentence in sentences:
        if chunks[-1] and rng.random() < 0.4:
            chunks.append([])
        chunks[-1].append(sentence)
    head = rng.choice(("", "", f"file_path: {rng.choice(_FILES)}\n\n", f"file_path: /data/{rng.choice(_FILES)}\n\n"))
    return "\n\n".join(head + " ".join(chunk) for chunk in chunks)
