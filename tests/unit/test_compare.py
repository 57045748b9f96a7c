"""The relay against the large model alone, over scripted models and through the real engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_integrations import Message, RelayEngine
from relay_integrations.backends.scripted import ScriptedBackend
from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.answers import Answer
from relay_integrations.evaluation.compare import Comparison
from relay_integrations.evaluation.compare_report import compare_report
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.grading import ItemGraders
from relay_integrations.evaluation.report import Report
from relay_integrations.evaluation.statistics import Pairs, newcombe_paired, wilson
from relay_integrations.policies import AllCues, LargeOnly, RandomPolicy
from tests.unit.compare_support import RIGHT, compared, engine, items, small_says
from tests.unit.support import WEATHER, backend, eventually


@pytest.fixture(scope="module")
def idle() -> Iterator[RelayEngine]:
    """For reports on answers that were made up."""
    with engine() as made:
        yield made


def reported(made: RelayEngine, questions: list[Item], **settings: Any) -> Report:
    report = compare_report(made, compared(made, questions, **settings))
    assert report is not None
    return report


# --- what is found


def test_figures_difference_and_disagreements() -> None:
    with engine() as made:
        report = reported(made, items("easy 1", "tricky 2", "easy 3", "hard 4"))
    data = report.to_dict()
    assert (data["bench"], data["pair"], data["backend"]) == ("compare", {"large": "big", "small": "tiny"}, "scripted")
    large, relay = data["rows"]
    assert (large["policy"], large["n"], large["accuracy"], large["accuracy_ci"]) == ("large-only", 4, 0.75, list(wilson(3, 4)))
    assert (relay["policy"], relay["n"], relay["accuracy"], relay["accuracy_ci"]) == ("relaygen", 4, 0.5, list(wilson(2, 4)))
    assert (large["utilisation"], large["handoffs"], large["failed"]) == (1, 0, 0)
    assert 0 < relay["utilisation"] < 1
    assert relay["handoffs"] == 3
    assert relay["tokens"] == large["tokens"]
    difference = data["difference"]
    assert (difference["value"], difference["better"], difference["worse"], difference["p"]) == (-0.25, 0, 1, 1)
    assert difference["ci"] == list(newcombe_paired(Pairs(2, 0, 1, 1)))
    assert (difference["ci_method"], difference["p_method"]) == ("newcombe-10", "mcnemar-exact")
    (case,) = data["disagreements"]
    assert (case["id"], case["right"], case["reference"]) == ("tricky 2", "large-only", "15")
    assert (case["large_found"], case["relay_found"]) == ("15", "16")
    assert case["blame"] == {"role": "small", "basis": "equation", "excerpt": "7*2=15 (it is 14)"}
    assert data["failures"] == []
    assert any("the small model's in 1" in note for note in report.notes)
    assert any(note.startswith("Wrong with both: 1.") for note in report.notes)


def test_where_only_the_relay_is_right_nobody_is_blamed() -> None:
    def gifted(question: str) -> list[str]:
        return [RIGHT.replace("15", "16"), RIGHT]

    with engine(large=gifted, small=lambda question: ["", RIGHT[:-4] + "15}", RIGHT.replace("15", "16")[:-3] + "15}"]) as made:
        (case,) = reported(made, items("x")).to_dict()["disagreements"]
    assert (case["right"], case["blame"]) == ("relaygen", None)


def test_an_answer_that_fails_is_wrong_and_listed_and_the_others_go_on() -> None:
    settings = {"on_failure": {"large": "continue", "small": "raise", "cool_down_after": 100}}
    with engine(settings=settings, fail_after=0) as made:
        report = reported(made, items("easy 1", "easy 2"))
    data = report.to_dict()
    assert [row["failed"] for row in data["rows"]] == [0, 2]
    assert [row["accuracy"] for row in data["rows"]] == [1, 0]
    assert [(f["id"], f["policy"], "scripted failure" in f["error"]) for f in data["failures"]] == [
        ("easy 1", "relaygen", True),
        ("easy 2", "relaygen", True),
    ]
    assert all("scripted failure" in case["relay_detail"] for case in data["disagreements"])
    assert data["disagreements"][0]["blame"]["basis"] == "last words"


def test_a_prompt_that_is_too_long_is_a_failure_of_both() -> None:
    with RelayEngine(ScriptedBackend("x", context_window=3), ScriptedBackend("x"), policy=AllCues()) as made:
        data = reported(made, items("one two three four")).to_dict()
    assert [row["failed"] for row in data["rows"]] == [1, 1]
    assert all("no room" in failure["error"] for failure in data["failures"])


def test_an_item_that_cannot_be_asked_at_all_ends_it_and_is_named() -> None:
    call = Item("q2", (Message(role="user", content="Rain?"),), "x", grader="exact", tools=(WEATHER,))
    with RelayEngine(ScriptedBackend("x", template_tools=False), ScriptedBackend("x"), policy=AllCues()) as made:
        questions = [*items("q1"), call]
        with ItemGraders(questions) as graders:
            comparison = Comparison(made, questions, graders)
            with pytest.raises(ConfigError, match=r"item 'q2' cannot be asked: .*does not support tools"):
                asyncio.run(comparison.run())
    assert [item for item, _, _ in comparison.answers] == ["q1", "q1"]


def test_answers_that_one_model_finished_alone_are_named() -> None:
    with engine(fail_after=0) as made:
        report = reported(made, items("easy 1"))
    assert [row["failed"] for row in report.rows] == [0, 0]
    assert any(note.endswith("finished by one model alone after a failure or where a window was full: 1.") for note in report.notes)


def test_cut_answers_are_named() -> None:
    with engine() as made:
        report = reported(made, items("easy 1"), options={"max_tokens": 5})
    assert any("limit of tokens: 1 of the large model's answers, 1 of the relay's" in note for note in report.notes)


def test_costs_are_shown_where_prices_are_given() -> None:
    prices = {"large": {"input": 1, "output": 10}, "small": {"input": 0.1, "output": 1}}
    with engine(settings={"prices": prices}) as made:
        large, relay = reported(made, items("easy 1")).rows
    assert large["cost"] > relay["cost"] > 0
    with engine() as made:
        assert "cost" not in reported(made, items("easy 1")).rows[0]


def test_an_answer_that_failed_before_it_began_cost_nothing() -> None:
    prices = {"large": {"input": 1, "output": 10}, "small": {"input": 0.1, "output": 1}}
    pair = (ScriptedBackend("x", context_window=30), ScriptedBackend("x"))
    with RelayEngine(*pair, policy=AllCues(), prices=prices) as made:
        rows = reported(made, items("short", "much " * 40)).rows
        alone = reported(made, items("short")).rows
    assert [row["cost"] for row in rows] == pytest.approx([row["cost"] / 2 for row in alone])


def test_with_several_answers_an_item_items_are_drawn() -> None:
    said = {"count": 0}

    def moody(question: str) -> Any:
        said["count"] += 1
        return small_says("tricky" if said["count"] % 3 == 0 else question)

    with engine(small=moody) as made:
        data = reported(made, items(*(f"easy {number}" for number in range(16))), samples=4).to_dict()
    difference = data["difference"]
    assert (difference["n"], difference["samples"]) == (16, 4)
    assert (difference["ci_method"], difference["p_method"]) == ("cluster-bootstrap", "sign-exact")
    low, high = difference["ci"]
    assert low < difference["value"] < high <= 0
    assert data["rows"][1]["accuracy_ci"] == list(wilson(data["rows"][1]["accuracy"] * 16, 16))
    assert {case["sample"] for case in data["disagreements"]} <= {0, 1, 2, 3}


def test_where_all_items_agree_the_interval_keeps_a_width() -> None:
    with engine() as made:
        difference = reported(made, items("easy 1", "easy 2"), samples=2).to_dict()["difference"]
    assert difference["ci"] == list(newcombe_paired(Pairs(2, 0, 0, 0)))


scores = st.tuples(st.integers(0, 4), st.integers(0, 4))
"""Of one item: how many of four answers are right, of the large model alone and of the relay."""


@given(st.lists(scores, min_size=1, max_size=9) | scores.map(lambda score: [score] * 40))
def test_few_items_or_such_as_are_all_alike_are_never_certain(idle: RelayEngine, found: list[tuple[int, int]]) -> None:
    difference = difference_of(idle, found)
    low, high = difference["ci"]
    assert (difference["ci_method"], difference["n"]) == ("newcombe-10", len(found))
    assert low - 1e-9 <= difference["value"] <= high + 1e-9
    assert high - low > 1 / len(found)


@given(st.lists(scores, min_size=1, max_size=60))
def test_any_scores_have_an_interval_around_their_difference(idle: RelayEngine, found: list[tuple[int, int]]) -> None:
    difference = difference_of(idle, found)
    low, high = difference["ci"]
    assert -1 - 1e-9 <= low - 1e-9 <= difference["value"] <= high + 1e-9 <= 1 + 1e-9
    assert 0 <= difference["p"] <= 1


def difference_of(made: RelayEngine, found: list[tuple[int, int]]) -> dict[str, Any]:
    """What is reported of items with such scores."""
    questions = items(*(str(number) for number in range(len(found))))
    with ItemGraders(questions) as graders:
        comparison = Comparison(made, questions, graders, relay=AllCues(), samples=4)
    for question, right in zip(questions, found, strict=True):
        for policy, count in zip(("large-only", "all-cues"), right, strict=True):
            for sample in range(4):
                answer = Answer(question.id, "", policy, sample, 0, sample < count, None, "", "math")
                comparison.answers[answer.key] = answer
    report = compare_report(made, comparison)
    assert report is not None
    return dict(report.difference or {})


# --- how it is asked


def test_who_goes_first_changes_from_item_to_item() -> None:
    with engine() as made:
        comparison = compared(made, items("a", "b", "c"))
    assert [(item, policy) for item, _, policy in comparison.answers] == [
        ("a", "large-only"),
        ("a", "relaygen"),
        ("b", "relaygen"),
        ("b", "large-only"),
        ("c", "large-only"),
        ("c", "relaygen"),
    ]


def test_both_have_the_same_seed_which_depends_on_the_item_and_the_sample_alone() -> None:
    with engine() as made:
        many = compared(made, items("a", "b", "c"), samples=2, seed=7).answers
        one = compared(made, items("c"), seed=7).answers
        other = compared(made, items("c"), seed=8).answers
    seeds = {(item, sample): answer.seed for (item, sample, _), answer in many.items()}
    assert len(set(seeds.values())) == 6
    assert all(answer.seed == seeds[item, sample] for (item, sample, _), answer in many.items())
    assert {answer.seed for answer in one.values()} == {seeds["c", 0]}
    assert {answer.seed for answer in other.values()} != {seeds["c", 0]}


def test_several_answers_at_once_are_the_same_answers() -> None:
    questions = items(*(f"{kind} {number}" for number in range(5) for kind in ("easy", "tricky", "hard")))
    with engine() as made:
        alone = compared(made, questions)
    with engine(delay=0.001) as made:
        together = compared(made, questions, concurrency=6)
        assert backend(made, "large").most_running + backend(made, "small").most_running > 2
    brief = [{key: (a.text, a.right, a.written) for key, a in sorted(c.answers.items())} for c in (alone, together)]
    assert brief[0] == brief[1]


def test_more_at_once_than_there_is_to_answer_is_no_more_work() -> None:
    with engine() as made:
        assert len(compared(made, items("a", "b"), concurrency=10**9).answers) == 4


def test_options_reach_both_but_the_budget_only_the_relay() -> None:
    with engine() as made:
        comparison = compared(made, items("a"), options={"temperature": 0.5, "max_tokens": 40, "large_token_budget": 6})
        assert {request.sampling.temperature for request in backend(made, "large").requests} == {0.5}
    assert comparison.answers["a", 0, "relaygen"].large_tokens == 6
    assert comparison.answers["a", 0, "large-only"].large_tokens > 6


def test_tool_calls_are_judged_as_lines_of_json() -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
    item = Item("a", (Message(role="user", content="Rain?"),), r'"name": "weather".*Bern', grader="regex", tools=(WEATHER,))
    with RelayEngine(ScriptedBackend(call), ScriptedBackend(call), policy="all-cues") as made:
        comparison = compared(made, [item])
    assert [answer.right for answer in comparison.answers.values()] == [True, True]
    assert json.loads(comparison.answers["a", 0, "all-cues"].text)["name"] == "weather"


def test_another_policy_may_be_compared_but_not_the_large_model_alone() -> None:
    with engine() as made, ItemGraders(items("a")) as graders:
        assert Comparison(made, items("a"), graders, relay=RandomPolicy(p=1)).relay.name == "random"
        with pytest.raises(ConfigError, match="large-only"):
            Comparison(made, items("a"), graders, relay=LargeOnly())


@pytest.mark.parametrize(
    ("item", "grader", "words"),
    [
        (Item("q1", (), "15"), None, r"'q1'.*no grader.*--grader"),
        (Item("q1", (), "("), "regex", r"'q1'.*no regular expression"),
        (Item("q1", (), "15", grader="maths"), "exact", r"'q1'.*maths"),
    ],
)
def test_a_grader_that_cannot_judge_is_named_before_anything_is_asked(item: Item, grader: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ItemGraders([item], grader)


def test_a_grader_that_breaks_down_ends_it_and_what_there_was_is_kept(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    command = f"command:sh -c 'test -e {flag} && exit 3; touch {flag}; exit 0'"
    questions = [Item(item.id, item.messages, "15") for item in items("a", "b")]
    with engine() as made, ItemGraders(questions, command) as graders:
        comparison = Comparison(made, questions, graders)
        with pytest.raises(ConfigError, match="exit code 3"):
            asyncio.run(comparison.run())
    assert list(comparison.answers) == [("a", 0, "large-only")]


def test_cancelling_stops_the_models() -> None:
    async def cancelled(made: RelayEngine) -> None:
        with ItemGraders(items("a", "b")) as graders:
            run = asyncio.create_task(Comparison(made, items("a", "b"), graders, concurrency=2).run())
            assert await asyncio.to_thread(eventually, lambda: backend(made, "small").running == 2)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

    with engine(stall_after=0) as made:
        asyncio.run(cancelled(made))
        assert eventually(lambda: backend(made, "small").running + backend(made, "large").running == 0)
