"""Scripted models that know the tiny models' problems, wholly or in part; here, so that another process can open them."""

from __future__ import annotations

from typing import Any

from relay_integrations import CueProfile, RelayEngine
from relay_integrations.backends.base import GenerateRequest
from relay_integrations.backends.scripted import ScriptedBackend, Vocabulary
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem

CUES = CueProfile.of("So", "Thus", "Therefore", "Okay")


def known(families: tuple[str, ...]) -> dict[str, Problem]:
    """Problems by their question."""
    drawn = (p for family in families for split in ("test", "validation") for p in problem_set(family, 20, 5, split=split))  # type: ignore[arg-type]
    return {p.question: p for p in drawn}


def open_knowing(right: bool, *families: str) -> RelayEngine:
    """A large model that knows all problems, and a small one that can only restate, unless `right`."""
    vocabulary = Vocabulary()
    traces = known(families or ("amounts",))

    def script(knows: bool) -> Any:
        def say(so_far: str, request: GenerateRequest) -> str:
            prompt = vocabulary.bytes_of(request.ids[: request.output_start]).decode()
            problem = max((p for question, p in traces.items() if question in prompt), key=lambda p: len(p.question))
            texts = [problem.trace, *(exchange.text for exchange in problem.exchanges)]
            trace = texts[prompt.count("<assistant>") - 1 - sum(message.role == "assistant" for message in problem.history)]
            trace = trace if knows or so_far else trace.replace(f"{{{problem.answer}}}", "{0}")
            return trace[len(so_far) :] if trace.startswith(so_far) else ""

        return say

    backends = [ScriptedBackend(script(knows), name=name, vocabulary=vocabulary) for knows, name in ((True, "L"), (right, "S"))]
    return RelayEngine(*backends, cue_profile=CUES, owns_backends=True)
