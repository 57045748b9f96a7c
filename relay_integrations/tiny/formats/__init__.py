"""The formats that the tiny models were trained on beside plain problems, by name; each draws a problem and its skeleton."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from relay_integrations.tiny.formats import context, talk, tools
from relay_integrations.tiny.tasks.problem import Problem

FORMATS: dict[str, Callable[[Random], tuple[Problem, object]]] = {
    talk.FOLLOW_UP: talk.follow_up,
    talk.SYSTEM: talk.system,
    talk.NO_THINKING: talk.no_thinking,
    tools.CALCULATOR: tools.calculator,
    context.RETRIEVAL: context.retrieval,
    context.REFINE: context.refine,
    context.CONDENSE: context.condense,
    tools.ANY_TOOL: tools.any_tool,
    tools.FORM: tools.form,
    talk.SMALL_TALK: talk.small_talk,
}

MEASURED = (talk.FOLLOW_UP, talk.SYSTEM, tools.CALCULATOR, context.RETRIEVAL, context.REFINE, context.CONDENSE, talk.NO_THINKING)
"""Those whose problems are kept apart by split, so that they can be measured."""
