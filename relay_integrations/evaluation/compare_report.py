"""What a comparison found: how often each is right, the difference and how sure it is, and where they disagree and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from relay_integrations.engine import RelayEngine
from relay_integrations.evaluation.answers import Answer
from relay_integrations.evaluation.blame import find_blame
from relay_integrations.evaluation.compare import Comparison
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.report import Column, Report, Row, Section
from relay_integrations.evaluation.statistics import Pairs, cluster_bootstrap, mcnemar_exact, newcombe_paired, wilson
from relay_integrations.policies import LargeOnly
from relay_integrations.roles import ROLES

Pair = tuple[Answer, Answer]
"""The large model's answer and the relay's."""

_CELL = 40

_ENOUGH_ITEMS = 10
"""So many items must differ before whole items are drawn; fewer say too little of how far the others might."""


def compare_report(engine: RelayEngine, comparison: Comparison) -> Report | None:
    """The report on all items that both have answered so far; None where there is none."""
    paired = _paired(comparison)
    if not paired:
        return None
    answers = [[pair[side] for pairs in paired.values() for pair in pairs] for side in (0, 1)]
    cases = [(item, pair) for item in comparison.items for pair in paired.get(item.id, ())]
    rows = [_row([[pair[side] for pair in pairs] for pairs in paired.values()]) for side in (0, 1)]
    disagreements = _disagreements(cases)
    return Report(
        bench="compare",
        pair={role: engine.backends[role].capabilities.name for role in ROLES},
        backend=type(engine.backends["large"]).__name__.removesuffix("Backend").lower(),
        rows=rows,
        difference=_difference(list(paired.values()), comparison),
        sections=(disagreements, _failures([answer for side in answers for answer in side])),
        notes=[*_notes(comparison, len(paired), cases), *_blame_notes([row["blame"] for row in disagreements.rows if row["blame"]])],
    )


def _paired(comparison: Comparison) -> dict[str, list[Pair]]:
    """Item by item, the samples that both have answered."""
    paired: dict[str, list[Pair]] = {}
    for item in comparison.items:
        for sample in range(comparison.samples):
            large, relay = (comparison.answers.get((item.id, sample, name)) for name in (LargeOnly.name, comparison.relay.name))
            if large is not None and relay is not None:
                paired.setdefault(item.id, []).append((large, relay))
    return paired


def _row(items: Sequence[Sequence[Answer]]) -> Row:
    """The figures of one policy; its answers item by item."""
    answers = [answer for item in items for answer in item]
    n = len(items)
    accuracy = fmean(_share(item) for item in items)
    tokens = sum(answer.tokens for answer in answers)
    costs = [answer.cost or 0.0 for answer in answers]  # one that failed before it began cost nothing
    return {
        "policy": answers[0].policy,
        "n": n,
        "failed": sum(answer.error is not None for answer in answers),
        "accuracy": accuracy,
        "accuracy_ci": list(wilson(accuracy * n, n)),  # as if each item had one answer: with several it is wider than it need be
        "utilisation": sum(answer.large_tokens for answer in answers) / max(1, tokens),
        "handoffs": fmean(answer.handoffs for answer in answers),
        "tokens": tokens / len(answers),
        "seconds": fmean(answer.seconds for answer in answers),
        **({"cost": fmean(costs)} if any(answer.cost is not None for answer in answers) else {}),
    }


def _share(answers: Sequence[Answer]) -> float:
    return fmean(answer.right for answer in answers)


def _difference(items: Sequence[Sequence[Pair]], comparison: Comparison) -> dict[str, Any]:
    """The relay's accuracy less the large model's, with what is known of it."""
    differences = [_share([relay for _, relay in pairs]) - _share([large for large, _ in pairs]) for pairs in items]
    better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    interval, method = _interval(items, differences, comparison.samples)
    p, test = mcnemar_exact(better, worse), "mcnemar-exact" if comparison.samples == 1 else "sign-exact"
    value, (low, high) = fmean(differences), interval
    names = {"newcombe-10": "Newcombe's paired score interval", "cluster-bootstrap": "bootstrap over items"}
    tests = {"mcnemar-exact": "McNemar's exact test", "sign-exact": "exact sign test over items"}
    return {
        "policy": comparison.relay.name,
        "against": LargeOnly.name,
        "n": len(items),
        "samples": comparison.samples,
        "complete": len(comparison.answers) == comparison.total,
        "value": value,
        "ci": [low, high],
        "ci_method": method,
        "better": better,
        "worse": worse,
        "p": p,
        "p_method": test,
        "text": f"{comparison.relay.name} − {LargeOnly.name}: {_points(value)} points, 95 % {_points(low)} to {_points(high)} "
        f"({names[method]}); better on {better} of {len(items)} items, worse on {worse}, p = {p:.2g} ({tests[test]})",
    }


def _interval(items: Sequence[Sequence[Pair]], differences: Sequence[float], samples: int) -> tuple[tuple[float, float], str]:
    """With several answers an item these are not independent, and whole items are drawn: where enough of them differ, and not all alike.

    Else the draws would all but repeat each other, and few items would pass for certainty. The other interval counts each item as one
    answer, which with several is wider than it need be.
    """
    if samples > 1 and sum(d != 0 for d in differences) >= _ENOUGH_ITEMS and len(set(differences)) > 1:
        return cluster_bootstrap(differences), "cluster-bootstrap"
    counts = [0.0, 0.0, 0.0, 0.0]
    for pairs in items:
        for large, relay in pairs:
            counts[2 * (not relay.right) + (not large.right)] += 1 / len(pairs)
    return newcombe_paired(Pairs(*counts)), "newcombe-10"


def _disagreements(cases: Sequence[tuple[Item, Pair]]) -> Section:
    rows = []
    for item, (large, relay) in cases:
        if large.right == relay.right:
            continue
        blame = None if relay.right else find_blame(relay.written, relay.found)
        rows.append(
            {
                "id": item.id,
                "sample": relay.sample,
                "family": item.family,
                "right": large.policy if large.right else relay.policy,
                "reference": item.reference,
                "large_found": large.found,
                "relay_found": relay.found,
                "large_detail": large.error or large.detail,
                "relay_detail": relay.error or relay.detail,
                "blame": None if blame is None else blame.to_dict(),
            }
        )
    shown = ("id", "right", "reference", "large_found", "relay_found")
    titles = ("item", "right", "reference", "large alone", "relay")
    columns = [Column(key, title, _brief) for key, title in zip(shown, titles, strict=True)]
    return Section("disagreements", "Where they disagree", (*columns, Column("blame", "wrong step by", _spell_blame)), rows)


def _failures(answers: Sequence[Answer]) -> Section:
    rows = [
        {"id": answer.item, "sample": answer.sample, "policy": answer.policy, "error": answer.error}
        for answer in answers
        if answer.error is not None
    ]
    columns = (Column("id", "item", _brief), Column("policy", "policy"), Column("error", "error"))
    return Section("failures", "Answers that failed, counted as wrong", columns, rows)


def _notes(comparison: Comparison, items: int, cases: Sequence[tuple[Item, Pair]]) -> list[str]:
    graders = ", ".join(sorted({relay.grader for _, (_, relay) in cases}))
    each = f", {comparison.samples} answers each" if comparison.samples > 1 else ""
    notes = [f"{items} item{'s' if items != 1 else ''}{each}, judged by {graders}; handoffs, tokens, s and cost are means an answer."]
    whole = comparison.samples * len(comparison.items)
    if len(cases) < whole:
        notes.insert(0, f"Not complete: {len(cases)} of {whole} pairs of answers.")
    both = sum(not large.right and not relay.right for _, (large, relay) in cases)
    if both:
        notes.append(f"Wrong with both: {both}. Not listed here; --out FILE keeps every answer.")
    bridged = sum(relay.bridged is not None for _, (_, relay) in cases)
    if bridged:
        notes.append(f"Of the relay's answers, finished by one model alone after a failure or where a window was full: {bridged}.")
    cut = [sum(pair[side].finish_reason == "length" for _, pair in cases) for side in (0, 1)]
    if any(cut):
        notes.append(f"Ended at the limit of tokens: {cut[0]} of the large model's answers, {cut[1]} of the relay's.")
    return notes


def _blame_notes(blames: Sequence[Mapping[str, Any]]) -> list[str]:
    if not blames:
        return []
    roles, bases = ([(what, count) for what, count in Counter(b[key] for b in blames).most_common()] for key in ("role", "basis"))
    whose = ", ".join(f"the {role} model's in {count}" for role, count in roles)
    rests = ", ".join(f"{basis} {count}" for basis, count in bases)
    return [f"Where the relay alone is wrong, the wrong step was {whose}. This is a guess, from: {rests}."]


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _brief(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _spell_blame(blame: dict[str, str]) -> str:
    return f"{blame['role']} ({blame['basis']}: {_brief(blame['excerpt'])})"
