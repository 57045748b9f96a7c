"""Chooses the switch cues of the tiny models: `python -m relay_integrations.tiny.cues`.

The large model's traces of calibration problems are read by the small model. A cue is kept where the small model would have written the
rest of the sentence as the large one did. The rule was made for the family `amounts`; for `queues` it is applied as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from relay_integrations.backends.base import Backend, RenderOptions
from relay_integrations.cues.profile import PROFILE_DIR, Cue, CueProfile, Pair
from relay_integrations.cues.sentences import sentence_end
from relay_integrations.engine import RelayEngine
from relay_integrations.errors import CueProfileError
from relay_integrations.evaluation.statistics import wilson
from relay_integrations.tiny import LARGE, OTHER_SMALL, VERSION
from relay_integrations.tiny.tasks import FAMILIES, Problem, amounts, problems

Traces = list[tuple[Problem, str]]
"""Problems, each with what the large model wrote."""

AGREEMENT = 0.95
"""A cue is kept if the small model agrees in so large a share of the sentences behind it, to the last token but one.

The lower end of the share's 95 % interval counts, so that few sentences prove nothing.
"""

CALIBRATION_PROBLEMS = 150

_SEEN = 10  # openers that were seen less often are not even listed

_PHRASES = ("This means", "In other words", "Das heißt", "Mit anderen Worten")
_OPENER = re.compile(r"\w+(?: \w+){0,2}(?=[,:])|\w+")


@dataclass(slots=True)
class Evidence:
    """What was seen behind one opener."""

    agreed: list[bool] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    lowest: list[float] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, float]:
        """Means over the sentences."""
        return {
            "segments": len(self.agreed),
            "agreement": round(fmean(self.agreed), 4),
            "at_least": round(wilson(sum(self.agreed), len(self.agreed))[0], 4),
            "mean_margin": round(fmean(self.margins), 4),
            "lowest_margin": round(fmean(self.lowest), 4),
        }


def choose(small: Backend, traces: Traces, family: str, name: str) -> CueProfile:
    """The cue profile of the large model with a small one on one family.

    Args:
        small: Reads the traces.
        traces: Problems of the family, each with what the large model wrote.
        family: Its name.
        name: Of the profile.

    Raises:
        CueProfileError: No opener is good enough.
    """
    found = {opener: seen.figures for opener, seen in asyncio.run(_study(small, traces)).items() if len(seen.agreed) >= _SEEN}
    kept = sorted((o for o, f in found.items() if f["at_least"] >= AGREEMENT), key=lambda opener: -found[opener]["segments"])
    rejected = {opener: figures["agreement"] for opener, figures in found.items() if opener not in kept}
    if not kept:
        raise CueProfileError(f"{name}: the small model agrees behind none of the openers: {rejected}")
    return CueProfile(
        name=name,
        models=Pair(large=LARGE, small=small.capabilities.name) if family == amounts.FAMILY else None,
        cues=tuple(Cue(text=opener, figures=found[opener]) for opener in kept),
        provenance={
            "data": f"{len(traces)} calibration problems of the family {family!r}, greedy traces of {LARGE}",
            "scorer": f"{small.capabilities.name}, teacher-forced",
            "rule": f"lower end of the 95 % interval (Wilson) of the agreement at least {AGREEMENT}",
            "figures": "agreement: share of sentences in which each token behind the cue, but the last, is the scorer's own choice;"
            " mean_margin and lowest_margin: of these tokens, averaged over sentences",
            "rejected": dict(sorted(rejected.items(), key=lambda pair: -pair[1])),
            "weights": VERSION,
            "date": datetime.date.today().isoformat(),
            "command": "python -m relay_integrations.tiny.cues",
        },
    )


def write_traces(engine: RelayEngine, family: str, n: int) -> Traces:
    """What the large model writes for `n` calibration problems, greedily; with each its problem."""
    drawn = problems(n, split="calibration", family=family)
    found = []
    for problem in drawn:
        result = engine.generate(problem.messages, policy="large-only", temperature=0, seed=0, max_tokens=1000)
        found.append((problem, "".join(segment.text for segment in result.segments)))
    return found


async def _study(small: Backend, traces: Traces) -> dict[str, Evidence]:
    evidence: dict[str, Evidence] = {}
    for problem, text in traces:
        for opener, tokens in await _read(small, problem, text):
            seen = evidence.setdefault(opener, Evidence())
            seen.agreed.append(all(rank == 0 for rank, _ in tokens))
            seen.margins.append(fmean(margin for _, margin in tokens))
            seen.lowest.append(min(margin for _, margin in tokens))
    return evidence


async def _read(small: Backend, problem: Problem, text: str) -> list[tuple[str, list[tuple[int, float]]]]:
    """For each sentence of the reasoning its opener, and rank and margin of each token behind it, the last one left out."""
    prompt = await small.render(problem.messages, [], RenderOptions())
    ids = await small.encode(text)
    scores = await small.score([*prompt.ids, *ids], start=len(prompt.ids))
    starts = [len(await small.decode(ids[:i])) for i in range(len(ids))]
    found = []
    for opener, begin, end in sentences(text.partition("</think>")[0].rstrip()):
        inside = [i for i, at in enumerate(starts) if begin <= at < end][:-1]
        if inside:
            found.append((opener, [(scores.rank[i], scores.top1[i] - scores.top2[i]) for i in inside]))
    return found


def sentences(text: str) -> Iterator[tuple[str, int, int]]:
    """Opener, end of the opener, and end of each sentence of a reasoning."""
    at = len("<think>") if text.startswith("<think>") else 0
    while (start := _next_letter(text, at)) is not None:
        end = sentence_end(text, start) or len(text)
        phrase = next((p for p in _PHRASES if text.startswith(p, start)), None)
        match = _OPENER.match(text, start, end)
        if phrase or match:
            opener = phrase or (match[0] if match else "")
            yield opener, start + len(opener), end
        at = end


def _next_letter(text: str, at: int) -> int | None:
    """Where text goes on behind white space; None at its end."""
    found = re.compile(r"\S").search(text, at)
    return None if found is None else found.start()


def write_profiles(folder: Path, n: int = CALIBRATION_PROBLEMS) -> None:
    """Chooses the cues of both pairs on both families, and writes their profiles."""
    with RelayEngine.tiny(policy="large-only") as pair, RelayEngine.tiny(small=OTHER_SMALL, policy="large-only") as other:
        for family in FAMILIES:
            traces = write_traces(pair, family, n)
            for engine, name in ((pair, "tiny"), (other, "tiny-other")):
                name = name if family == amounts.FAMILY else f"{name}-{family}"
                try:
                    profile = choose(engine.backends["small"], traces, family, name)
                except CueProfileError as e:
                    print(e, flush=True)  # noqa: T201
                    continue
                profile.save(folder / f"{name}.json")
                print(f"{name}: {', '.join(cue.text for cue in profile.cues)}; not: {profile.provenance['rejected']}", flush=True)  # noqa: T201


def main() -> int:
    """Writes the profiles that ship."""
    parser = argparse.ArgumentParser(prog="python -m relay_integrations.tiny.cues", description=__doc__)
    parser.add_argument("-n", type=int, default=CALIBRATION_PROBLEMS, help="calibration problems (%(default)s)")
    parser.add_argument("--out", type=Path, default=PROFILE_DIR, help="folder for the profiles (%(default)s)")
    options = parser.parse_args()
    write_profiles(options.out, options.n)
    return 0


if __name__ == "__main__":
    sys.exit(main())
