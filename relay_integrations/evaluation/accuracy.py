"""How often each policy is right on problems that nothing was trained or chosen on, and what it costs.

The random baseline delegates as much as RelayGen does: its probability is searched on validation problems, then fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from relay_integrations import tiny
from relay_integrations.chat.messages import Message
from relay_integrations.errors import ConfigError, RelayError
from relay_integrations.evaluation.crew import Assignment, Crew, OpenEngine
from relay_integrations.evaluation.machine import describe_machine
from relay_integrations.evaluation.report import Report
from relay_integrations.evaluation.tally import Tally
from relay_integrations.policies import AllCues, LargeOnly, Policy, RandomPolicy, RelayGen, SmallOnly
from relay_integrations.roles import ROLES
from relay_integrations.tiny.formats import MEASURED, context, talk
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import FAMILIES, Problem, Split

FAMILY_NAMES = (*FAMILIES, *MEASURED)
"""What can be measured with: the two families of problems, and the formats."""

BASELINES = ("large-only", "small-only", "relaygen", "all-cues", "random")
"""The policies that stand beside each other, in this order."""

TURNS: dict[str, dict[str, Any]] = {
    "rule": {},
    "large": {"answer_role": "large", "tool_call_role": "large"},
    "small": {"answer_role": "small", "tool_call_role": "small"},
}
"""Who writes the turns of an agent in RelayGen, the reasoning apart: the large model the calls and the small one the rest, or one of them
all."""

SEARCH_PROBLEMS = 60
SEARCH_STEPS = 3
SEARCH_TOLERANCE = 0.01
"""The search for the random baseline's probability: on so many problems, so often at most, until this close to RelayGen's utilisation."""

WORDED = (context.RETRIEVAL, context.REFINE, context.CONDENSE, talk.SYSTEM)
"""Formats whose answer is right in one wording only."""

_BOX = "Please reason step by step, and put your final answer within \\boxed{}."

Progress = Callable[[str, int, int], None]
"""Takes what is being done, how much of it is done, and of how much."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the bench.

    Attributes:
        report: What was done by then.
    """

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


class WorkerDied(RelayError):
    """One of the processes that share the work ended: it was killed, or there was no memory left.

    Attributes:
        report: What was done by then; None where nothing was.
    """

    def __init__(self, report: Report | None) -> None:
        super().__init__("one of the worker processes died (killed, or out of memory?): run it again, with fewer --jobs perhaps")
        self.report = report


@dataclass(frozen=True, slots=True)
class AccuracySettings:
    """What to measure.

    Attributes:
        n: Problems a family.
        seed: Of the problems.
        families: Some of `FAMILY_NAMES`.
        policies: Some of `BASELINES`.
        turns: Some of `TURNS`: RelayGen is measured with each of them.
        options: Options of every request; greedy if they set no temperature.
        jobs: Processes to share the work.
        tiny: Whether the tiny models are measured, which need not be told to box their answers; others are.
    """

    n: int = 100
    seed: int = 0
    families: tuple[str, ...] = ("amounts",)
    policies: tuple[str, ...] = BASELINES
    turns: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    jobs: int = 1
    tiny: bool = True

    @property
    def requests(self) -> dict[str, Any]:
        """The options of every request, the tiny models' limit included."""
        return {**({"max_tokens": tiny.MAX_TOKENS} if self.tiny else {}), **self.options}

    def draw(self, family: str, n: int, split: Split) -> list[Problem]:
        """Draws problems, as the models are to be asked them."""
        drawn = problem_set(family, n, self.seed, split=split)
        return drawn if self.tiny else [_instruct(problem) for problem in drawn]

    def check(self) -> None:
        """Checks the names.

        Raises:
            ConfigError: Names what there is.
        """
        kinds = (("family", self.families, FAMILY_NAMES), ("policy", self.policies, BASELINES), ("turns", self.turns, tuple(TURNS)))
        for kind, given, known in kinds:
            for name in given:
                if name not in known:
                    raise ConfigError(f"there is no {kind} {name!r} to measure; there are: {', '.join(known)}")
        worded = [] if self.tiny else [name for name in self.families if name in WORDED]
        if worded:
            raise ConfigError(
                f"{', '.join(worded)}: right is an answer in the tiny models' own words, which no other model knows; "
                "measure other models on other families, or with `relay compare` on data of your own"
            )


def accuracy_bench(open_engine: OpenEngine, settings: AccuracySettings, progress: Progress = lambda what, done, all_: None) -> Report:
    """Runs the bench on the tiny models' problems.

    Args:
        open_engine: Opens the pair; its cue profile is RelayGen's.
        settings: What to measure.
        progress: Told how far it is.

    Raises:
        ConfigError: A setting is wrong.
        Interrupted: Ctrl-C; holds what was done by then.
        KeyboardInterrupt: Ctrl-C before anything was done.
        WorkerDied: One of several processes died; holds what was done by then.
    """
    settings.check()
    tallies: list[Tally] = []
    with Crew(open_engine, settings.jobs) as crew:
        engine = crew.engine
        machine = describe_machine()  # now: later its load would be the bench's own
        cued = RelayGen(cues=engine.cue_profile) if engine.cue_profile else RelayGen()

        def report(broken_off: bool) -> Report:
            return Report(
                bench="accuracy",
                pair={role: engine.backends[role].capabilities.name for role in ROLES},
                backend=type(engine.backends["large"]).__name__.removesuffix("Backend").lower(),
                rows=_rows([tally for tally in tallies if tally.outcomes]),
                notes=_notes(settings, broken_off),
                machine=machine,
            )

        try:
            for family in settings.families:
                new = _line_up(crew, settings, family, cued, progress)
                tallies += new
                _measure(crew, settings, family, new, progress)
        except (KeyboardInterrupt, BrokenProcessPool) as e:
            _even_out(tallies)
            done = report(broken_off=True) if any(tally.outcomes for tally in tallies) else None
            if isinstance(e, BrokenProcessPool):
                raise WorkerDied(done) from e
            if done is not None:
                raise Interrupted(done) from e
            raise
        return report(broken_off=False)


def match_utilisation(crew: Crew, wanted: Policy, drawn: Sequence[Problem], options: dict[str, Any], progress: Progress) -> float:
    """The probability at which `random` has the utilisation of another policy.

    Args:
        crew: Solves the problems.
        wanted: The other policy.
        drawn: The problems to search on.
        options: Of the requests.
        progress: Told how far it is.
    """

    def utilisation(policy: Policy, done: int) -> float:
        progress("matching the random baseline", done, SEARCH_STEPS + 1)
        tally = Tally(policy, "")
        for _, outcomes in crew.work([Assignment(i, problem, (policy,), options) for i, problem in enumerate(drawn)]):
            tally.outcomes += outcomes
        return tally.utilisation

    target = utilisation(wanted, 0)
    # Utilisation falls almost evenly from p = 0 to p = 1, where the small model writes all but nothing: lines between what was found.
    found = [(0.0, 1.0), (1.0, 0.0)]
    p = 1 - target
    for step in range(SEARCH_STEPS):
        share = utilisation(RandomPolicy(p=p), step + 1)
        if abs(share - target) <= SEARCH_TOLERANCE:
            break
        found = sorted([*found, (p, share)])
        (p1, high), (p2, low) = next((one, other) for one, other in pairwise(found) if one[1] >= target >= other[1])
        p = p1 + (p2 - p1) * (high - target) / max(1e-9, high - low)
    return p


def _instruct(problem: Problem) -> Problem:
    """A problem with a system prompt that says where the answer is looked for."""
    if problem.grading != "box":
        return problem
    said = [message.content for message in problem.history if message.role == "system"]
    rest = tuple(message for message in problem.history if message.role != "system")
    return replace(problem, history=(Message(role="system", content="\n".join([*said, _BOX])), *rest))


def _line_up(crew: Crew, settings: AccuracySettings, family: str, cued: Policy, progress: Progress) -> list[Tally]:
    """The policies to measure on a family."""
    made: dict[str, list[Tally]] = {
        "large-only": [Tally(LargeOnly(), family)],
        "small-only": [Tally(SmallOnly(), family)],
        "relaygen": [Tally(cued.model_copy(update=TURNS[name]), family, f"turns: {name}") for name in settings.turns]
        or [Tally(cued, family)],
        "all-cues": [Tally(AllCues(), family)],
    }
    tallies = [tally for name in BASELINES if name in settings.policies for tally in made.get(name, ())]
    if "random" in settings.policies:
        drawn = settings.draw(family, min(SEARCH_PROBLEMS, settings.n), "validation")
        p = match_utilisation(crew, cued, drawn, settings.requests, progress)
        tallies.append(Tally(RandomPolicy(p=p), family, case=f"p={p:.3f}"))
    return tallies


def _with_turns(cued: Policy, family: str, name: str) -> Tally:
    return Tally(cued.model_copy(update=TURNS[name]), family, case=f"turns: {name}")


def _measure(crew: Crew, settings: AccuracySettings, family: str, tallies: list[Tally], progress: Progress) -> None:
    drawn = settings.draw(family, settings.n, "test")
    policies = tuple(tally.policy for tally in tallies)
    progress(family, 0, settings.n)
    work = crew.work([Assignment(i, problem, policies, settings.requests) for i, problem in enumerate(drawn)])
    for done, (_, outcomes) in enumerate(work, 1):
        for tally, outcome in zip(tallies, outcomes, strict=True):
            tally.outcomes.append(outcome)
        progress(family, done, settings.n)


def _even_out(tallies: Sequence[Tally]) -> None:
    """Drops a last problem of which an interrupt left only some policies' outcomes."""
    for tally in tallies:
        del tally.outcomes[min(len(other.outcomes) for other in tallies if other.family == tally.family) :]


def _rows(tallies: list[Tally]) -> list[dict[str, Any]]:
    baselines = {tally.family: tally for tally in tallies if tally.policy.name == "large-only"}
    return [tally.row(baselines.get(tally.family)) for tally in tallies]


def _notes(settings: AccuracySettings, broken_off: bool) -> tuple[str, ...]:
    temperature = settings.options.get("temperature", 0)
    how = "greedy" if not temperature else f"sampled at temperature {temperature:g}"
    notes = [
        f"{settings.n} test problems a family (seed {settings.seed}), {how}; handoffs, tokens and s are means a problem, "
        "ms a token is the median problem's, with quartiles.",
    ]
    if len(settings.policies) > 1 and "large-only" in settings.policies:
        notes.append("vs large: difference to the large model alone on the same problems, with Newcombe's paired 95 % interval.")
    if settings.turns:
        notes.append("turns: who writes what follows the reasoning: one model all of it, or by the rule, the large one calls of tools.")
    if "random" in settings.policies:
        notes.append("random: its p was searched on validation problems, so that the large model's share is as in relaygen.")
    if settings.jobs > 1:
        notes.append(f"{settings.jobs} processes at once: times compare within this run only.")
    return ("Interrupted: only what was done by then.", *notes) if broken_off else tuple(notes)
