"""What the tests of comparisons share: a pair of scripted models that know the answers to some questions, and to others not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from relay_integrations import CueProfile, Message, RelayEngine
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import Reply, ScriptedBackend, Vocabulary
from relay_integrations.evaluation.compare import Comparison
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.grading import ItemGraders

RIGHT = "<think>\nFirst, 3+4=7. So, it is 7*2=14. Then 14+1=15.\n</think>\n\n\\boxed{15}"
SMALL_WRONG = "<think>\nFirst, 3+4=7. So, it is 7*2=15. Then 15+1=16.\n</think>\n\n\\boxed{16}"
LARGE_WRONG = "<think>\nFirst, 3+4=8. So, it is 8*2=16. Then 16+1=17.\n</think>\n\n\\boxed{17}"
"""Under RelayGen with the cue "So" the small model writes the second sentence and the answer."""

Say = Callable[[str], Sequence[str]]
"""From a question to the texts that a model may be in; the first that goes on from what stands is taken."""


def items(*questions: str) -> list[Item]:
    """Items whose question is their id, with the right answer 15."""
    return [Item(question, (Message(role="user", content=question),), "15", grader="math") for question in questions]


def large_says(question: str) -> Sequence[str]:
    return (LARGE_WRONG, RIGHT) if "hard" in question else (RIGHT, SMALL_WRONG)


def small_says(question: str) -> Sequence[str]:
    return (SMALL_WRONG, RIGHT, LARGE_WRONG) if "tricky" in question else (RIGHT, SMALL_WRONG, LARGE_WRONG)


def pair(large: Say = large_says, small: Say = small_says, **reply: Any) -> list[ScriptedBackend]:
    """Two backends. With `reply`, the small one's replies are such, e.g. `fail_after=1`."""
    vocabulary = Vocabulary()

    def script(say: Say, settings: dict[str, Any]) -> Any:
        def speak(so_far: str, request: GenerateRequest) -> Reply:
            prompt = vocabulary.bytes_of(request.ids[: request.output_start]).decode()
            question = prompt.rpartition("<user>")[2].partition("</user>")[0]
            whole = next((text for text in say(question) if text.startswith(so_far)), so_far)
            return Reply(whole[len(so_far) :], **settings)

        return speak

    return [
        ScriptedBackend(script(large, {}), name="big", vocabulary=vocabulary),
        ScriptedBackend(script(small, reply), name="tiny", vocabulary=vocabulary),
    ]


def engine(large: Say = large_says, small: Say = small_says, *, settings: dict[str, Any] | None = None, **reply: Any) -> RelayEngine:
    """A relay over such a pair."""
    return RelayEngine(*pair(large, small, **reply), cue_profile=CueProfile.of("So"), **(settings or {}))


def compared(made: RelayEngine, questions: list[Item], grader: str | None = None, **settings: Any) -> Comparison:
    """A comparison that has been run."""
    with ItemGraders(questions, grader) as graders:
        comparison = Comparison(made, questions, graders, **settings)
        asyncio.run(comparison.run())
    return comparison
