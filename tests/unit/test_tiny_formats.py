"""The formats that the tiny models know: right, in the frameworks' own words, and kept apart by split."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from relay_integrations.chat.messages import read_messages, read_tools
from relay_integrations.tiny.dump_prompts import FUNCTIONS
from relay_integrations.tiny.formats import FORMATS, MEASURED
from relay_integrations.tiny.formats.calculator import run_tool
from relay_integrations.tiny.formats.frameworks import FRAMEWORKS, fill, found, tool
from relay_integrations.tiny.sets import problem_set
from relay_integrations.tiny.tasks import Problem, is_right, split_of
from relay_integrations.tiny.training.mix import SHARES, assistant_message


@pytest.mark.parametrize("name", FORMATS)
def test_the_core_takes_the_conversation_and_the_tools(name: str) -> None:
    for seed in range(50):
        problem, _ = FORMATS[name](Random(seed))
        assert read_messages(problem.messages)
        assert len(read_tools(list(problem.tools))) == len(problem.tools)


@pytest.mark.parametrize("name", MEASURED)
def test_the_last_text_of_a_right_response_is_right(name: str) -> None:
    for problem in problem_set(name, 60):
        last = problem.exchanges[-1].text if problem.exchanges else problem.trace
        answer = last.rpartition("</think>")[2]
        assert is_right(problem, answer), (problem.question, answer)
        assert (problem.thinking and "<think>" in last) or (not problem.thinking and "<think>" not in last)


@pytest.mark.parametrize("name", MEASURED)
def test_test_problems_of_a_format_are_different_and_of_the_test_split(name: str) -> None:
    drawn = problem_set(name, 50)
    assert drawn == problem_set(name, 50)
    assert len({(p.question, tuple(m.content for m in p.history)) for p in drawn}) >= 45  # small talk may repeat itself
    assert problem_set(name, 20, split="validation") != drawn[:20]


def test_tools_return_what_the_conversation_says() -> None:
    for problem in problem_set("calculator", 80):
        text = problem.trace
        for exchange in problem.exchanges:
            calls = assistant_message(text).tool_calls
            assert [run_tool(call.name, json.loads(call.arguments)) for call in calls] == list(exchange.results)
            names = [described["function"]["name"] for described in problem.tools]
            assert all(call.name in names for call in calls)
            text = exchange.text


def test_a_call_has_the_arguments_that_its_tool_declares() -> None:
    for name in ("calculator", "any-tool", "form"):
        for seed in range(60):
            problem, _ = FORMATS[name](Random(seed))
            tools = {t["function"]["name"]: t["function"]["parameters"] for t in problem.tools}
            for call in assistant_message(problem.trace).tool_calls:
                values = json.loads(call.arguments)
                declared = tools[call.name]["properties"]
                assert set(values) == set(declared)
                kinds = {"integer": int, "string": str, "number": float}
                assert all(isinstance(values[key], kinds[kind["type"]]) for key, kind in declared.items())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_tools_are_spelt_as_the_framework_spells_them(framework: str) -> None:
    parameters = {
        "calculator": {"expression": "string"},
        "multiply": {"a": "integer", "b": "integer"},
        "get_weather": {"city": "string"},
        "ping": {},
    }
    returns = {"multiply": "integer"}
    for function, real in zip(FUNCTIONS, found()["tools"][framework], strict=True):
        name = function.__name__
        assert tool(framework, name, function.__doc__ or "", parameters[name], returns.get(name, "string")) == real  # type: ignore[arg-type]


@pytest.mark.parametrize("template", sorted(found()["templates"]))
def test_a_template_keeps_nothing_to_fill_in(template: str) -> None:
    fields = {"context_str": "A", "query_str": "B", "context_msg": "C", "existing_answer": "D", "chat_history": "E", "question": "F"}
    text = "".join(message.content for message in fill(template, **fields))
    assert not re.search(r"\{\w+\}", text)
    assert any(value in text for value in fields.values())


def test_an_answer_that_is_not_in_the_context_is_not_known() -> None:
    unknown = [p for p in problem_set("retrieval", 100) if p.answer == "not know"]
    assert unknown
    for problem in unknown:
        asked = re.search(r"How many (\w+) does (\w+) have", "".join(m.content for m in problem.messages))
        assert asked
        text = "".join(m.content for m in problem.messages).replace(asked[0], "")
        assert not re.search(rf"(?:{asked[2]} (?:has|owns) \d+ {asked[1]}|\d+ {asked[1]} in the room of {asked[2]})", text)


def test_contexts_and_conversations_can_be_made_long() -> None:
    from relay_integrations.tiny.formats.context import retrieval
    from relay_integrations.tiny.formats.talk import follow_up

    assert len("".join(m.content for m in retrieval(Random(1), 100)[0].messages)) > 3000
    assert len(follow_up(Random(1), 20)[0].history) == 40


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("calculator", {"expression": "48+12"}, "60"),
        ("calc", {"expr": "2 * (3 + 4)"}, "14"),
        ("multiply", {"a": 6, "b": 7}, "42"),
        ("subtract", {"x": 6, "y": 7}, "-1"),
        ("calculator", {"expression": "7/2"}, "3.5"),
    ],
)
def test_a_calculator_works_things_out(name: str, arguments: dict[str, object], result: str) -> None:
    assert run_tool(name, arguments) == result


@pytest.mark.parametrize("expression", ["", "1/0", "import os", "__import__('os')", "a+1", "2**3", "(" * 500, "1 +", "'a'*3", "None"])
def test_a_calculator_refuses_what_is_no_arithmetic(expression: str) -> None:
    with pytest.raises(ValueError, match="cannot work out"):
        run_tool("calculator", {"expression": expression})


def test_the_training_mix_names_all_kinds_and_adds_up() -> None:
    from relay_integrations.tiny.tasks import FAMILIES

    assert set(SHARES) == {*FAMILIES, *FORMATS}
    assert sum(SHARES.values()) == 100


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_measured_is_never_trained_on(name: str) -> None:
    def said(problem: Problem) -> str:
        return "\n".join(message.content for message in problem.messages)

    rng = Random(7)
    trained = {said(problem) for problem, skeleton in (FORMATS[name](rng) for _ in range(1500)) if split_of(skeleton) == "train"}
    measured = {said(problem) for problem in problem_set(name, 40)}
    assert not trained & measured


def test_an_answer_that_ignores_the_system_prompt_is_wrong() -> None:
    drawn = [p for p in problem_set("system", 60) if "Final answer" not in p.answer_text or "Done" in p.answer_text]
    assert len(drawn) > 20
    for problem in drawn:
        usual = f"After all the steps, there are {problem.answer}.\n\n**Final answer:** \\boxed{{{problem.answer}}}"
        assert is_right(problem, problem.answer_text)
        assert not is_right(problem, usual)


def test_an_answer_that_repeats_the_context_is_wrong() -> None:
    for name in ("retrieval", "refine"):
        for problem in problem_set(name, 40):
            assert not is_right(problem, problem.question)
