"""Conversations with tools, in the Hermes format that Qwen models write: a calculator, tools of any name, and forms to fill in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from relay_integrations.chat.messages import Message
from relay_integrations.tiny.formats.calculator import PAIR_TOOLS, work_out
from relay_integrations.tiny.formats.frameworks import FRAMEWORKS, Framework, Parameter, tool
from relay_integrations.tiny.formats.talk import NEUTRAL, small_talk
from relay_integrations.tiny.tasks import amounts
from relay_integrations.tiny.tasks.problem import Exchange, Problem

CALCULATOR, ANY_TOOL, FORM = "calculator", "any-tool", "form"

_NAMES = ("calculator", "calculator", "calculate", "calc", "evaluate", "compute")
_DESCRIPTIONS = (
    "Work out an arithmetic expression.",
    "Evaluate an arithmetic expression.",
    "Evaluates a mathematical expression.",
    "Useful for math.",
    "Calculate the result of an expression.",
)
_ARGUMENTS = ("expression", "expression", "expr", "query", "input")
_PAIR_ARGUMENTS = (("a", "b"), ("a", "b"), ("x", "y"), ("first", "second"))

_VERBS = "get find look_up read check fetch count search magic my run convert".split()
_NOUNS = "weather price function user order stock time distance population score file city magic_function adder_tool".split()
_TEXTS = "San Francisco|Paris|New York|London|blue|red|Tokyo|Berlin|Rome|apples|today|Boston, MA|你好啊集团|Oslo".split("|")
_RESULTS = (
    "It's always sunny in {x}!",
    "It is cold in {x}.",
    "{n}",
    "{n}",
    "{n} degrees",
    "The price is {n} dollars.",
    "open",
    "done",
    "no",
)

_JOKES = {
    "cats": ("Why did the cat sit on the computer?", "To keep an eye on the mouse."),
    "dogs": ("What do you call a dog that does magic?", "A labracadabrador."),
    "fish": ("Why are fish so smart?", "They live in schools."),
    "birds": ("Why do birds fly south?", "It is too far to walk."),
}


def calculator(rng: Random) -> tuple[Problem, object]:
    """A word problem, or a bare expression, to be worked out with a calculator; now and then nothing to work out."""
    framework = rng.choice(FRAMEWORKS)
    kind = rng.choice(("words", "words", "words", "bare", "bare", "none"))
    if kind == "none":
        talk, skeleton = small_talk(rng)
        return replace(talk, family=CALCULATOR, tools=_calculator_tools(rng, framework)[0]), skeleton
    return _word_problem(rng, framework) if kind == "words" else _bare(rng, framework)


def any_tool(rng: Random) -> tuple[Problem, object]:
    """A tool of a random name, which the question asks for."""
    framework = rng.choice(FRAMEWORKS)
    name = f"{rng.choice(_VERBS)}_{rng.choice(_NOUNS)}" if rng.random() < 0.8 else rng.choice(_NOUNS)
    parameters: dict[str, Parameter] = {}
    values: dict[str, Any] = {}
    for parameter in rng.sample(
        "input city location name item customer_name description count number query id".split(), rng.choice((0, 1, 1, 1, 2))
    ):
        kind: Parameter = rng.choice(("integer", "string"))
        parameters[parameter] = kind
        values[parameter] = rng.randint(1, 200) if kind == "integer" else rng.choice(_TEXTS)
    spoken = ", ".join(str(value) for value in values.values())
    question = rng.choice(
        (f"What is the value of {name}({spoken})? Use the tool.", f"Use {name} for {spoken}.", f"What does {name} say about {spoken}?")
        if values
        else (f"Use {name}.", f"What does {name} say?", f"Call {name}, please.")
    )
    first = next(iter(values.values()), "it")
    result = rng.choice(_RESULTS).format(x=first, n=rng.randint(1, 999))
    tools = [tool(framework, name, f"{rng.choice(('Get', 'Find', 'Return', 'Apply'))} the {name.replace('_', ' ')}.", parameters, "string")]
    if rng.random() < 0.3:
        tools.insert(rng.randrange(2), _calculator_tools(rng, framework)[0][0])
    trace = f"<think>\nThe tool {name} can answer this.\n</think>\n\n{_call(name, values)}"
    then = f"<think>\nThe tool says {result}\n</think>\n\n{result}"
    skeleton = (ANY_TOOL, name, spoken, result)
    return Problem(
        ANY_TOOL, question, result, trace, 1, _history(rng), tuple(tools), (Exchange((result,), then),), grading="word"
    ), skeleton


def form(rng: Random) -> tuple[Problem, object]:
    """A form that is filled in from the question, as structured output asks for it."""
    framework = rng.choice(FRAMEWORKS)
    name, age, city, items = rng.choice(amounts.NAMES), rng.randint(2, 99), rng.choice(_TEXTS[:8]), rng.choice(amounts.ITEMS)
    topic = rng.choice(tuple(_JOKES))
    joke = dict(zip(("setup", "punchline"), _JOKES[topic], strict=True))
    forms: list[tuple[str, dict[str, Parameter], str, dict[str, Any]]] = [
        ("Person", {"name": "string", "age": "integer"}, f"{name} is {age} years old.", {"name": name, "age": age}),
        ("Person", {"name": "string", "city": "string"}, f"{name} lives in {city}.", {"name": name, "city": city}),
        ("Amount", {"item": "string", "count": "integer"}, f"{name} has {age} {items}.", {"item": items, "count": age}),
        ("Answer", {"answer": "integer"}, f"How many {items} are {age} {items}?", {"answer": age}),
        ("Joke", {"setup": "string", "punchline": "string"}, f"Tell me a joke about {topic}.", joke),
    ]
    schema, parameters, question, values = rng.choice(forms)
    described = tool(framework, schema, rng.choice((f"{schema} to return.", f"A {schema.lower()}.", "")), parameters, "string")
    trace = f"<think>\nThe tool {schema} takes this.\n</think>\n\n{_call(schema, values)}"
    return Problem(FORM, question, json.dumps(values), trace, 1, _history(rng), (described,), grading="word"), (FORM, question)


def _word_problem(rng: Random, framework: Framework) -> tuple[Problem, object]:
    story = amounts.draw_story(rng, rng.choice((1, 2, 2, 3)))
    pairs = rng.random() < 0.35 and all(step.operation in PAIR_TOOLS for step in story.steps)
    tools, (name, argument) = _pair_tools(rng, framework) if pairs else _calculator_tools(rng, framework)
    texts = []
    said = ""
    for i, step in enumerate(story.steps):
        opener = ("First", "Next", "Then", "Now")[i]
        if pairs:
            a, _, b = step.expression.replace("+", " ").replace("-", " ").replace("*", " ").partition(" ")
            call = _call(step.operation, dict(zip(argument.split(), (int(a), int(b)), strict=True)))
        else:
            call = _call(name, {argument: step.expression})
        texts.append(f"<think>\n{said}{opener}, {step.action}.\n</think>\n\n{call}")
        said = f"The tool says {step.result}. {step.restate(rng)} "
    texts.append(f"<think>\n{said}All steps are done.\n</think>\n\n{story.conclusion}")
    exchanges = tuple(Exchange((str(step.result),), text) for step, text in zip(story.steps, texts[1:], strict=True))
    question = story.question(rng)
    return Problem(CALCULATOR, question, str(story.result), texts[0], len(story.steps), _history(rng), tools, exchanges), story.skeleton


def _bare(rng: Random, framework: Framework) -> tuple[Problem, object]:
    """One expression, or two at once, with numbers that nobody works out in the head."""
    expressions = [_expression(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    tools, (name, argument) = _calculator_tools(rng, framework)
    if len(expressions) == 1 and rng.random() < 0.4:
        tools, (_, argument) = _pair_tools(rng, framework)
        a, sign, b = _split(expressions[0])
        calls = [_call(next(k for k, (s, _) in PAIR_TOOLS.items() if s == sign), dict(zip(argument.split(), (a, b), strict=True)))]
    else:
        calls = [_call(name, {argument: expression}) for expression in expressions]
    spoken = " and ".join(" ".join(map(str, _split(e))) if rng.random() < 0.5 else e for e in expressions)
    question = rng.choice(("What is {e}?", "What is {e}", "Calculate {e}.", "How much is {e}?", "Use the calculator: {e}")).format(e=spoken)
    results = tuple(work_out(e) for e in expressions)
    trace = "<think>\nThe tool can work this out.\n</think>\n\n" + "\n".join(calls)
    text = "The result is " + " and ".join(results) + "." if len(results) == 1 else "The results are " + " and ".join(results) + "."
    then = f"<think>\nThe tool says {' and '.join(results)}.\n</think>\n\n{text}"
    exchange = Exchange(results, then)
    answer = " and ".join(results)
    return Problem(CALCULATOR, question, answer, trace, 1, _history(rng), tools, (exchange,), grading="word"), (
        CALCULATOR,
        tuple(expressions),
    )


def _calculator_tools(rng: Random, framework: Framework) -> tuple[tuple[dict[str, Any], ...], tuple[str, str]]:
    """One calculator, perhaps with another tool beside it; its name and its argument."""
    name, argument = rng.choice(_NAMES), rng.choice(_ARGUMENTS)
    tools = [tool(framework, name, rng.choice(_DESCRIPTIONS), {argument: "string"}, "string")]
    if rng.random() < 0.2:
        tools.insert(rng.randrange(2), tool(framework, "get_weather", "Get the weather in a city.", {"city": "string"}, "string"))
    return tuple(tools), (name, argument)


def _pair_tools(rng: Random, framework: Framework) -> tuple[tuple[dict[str, Any], ...], tuple[str, str]]:
    """A tool for each operation on two numbers; the names of their arguments, in one text."""
    a, b = rng.choice(_PAIR_ARGUMENTS)
    parameters: dict[str, Parameter] = {a: "integer", b: "integer"}
    tools = [tool(framework, name, description, parameters, "integer") for name, (_, description) in PAIR_TOOLS.items()]
    rng.shuffle(tools)
    return tuple(tools), ("", f"{a} {b}")


def _history(rng: Random) -> tuple[Message, ...]:
    return (Message(role="system", content=rng.choice(NEUTRAL)),) if rng.random() < 0.5 else ()


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    call = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def _expression(rng: Random) -> str:
    most = rng.choice((99, 999, 9999))
    return f"{rng.randint(1, most)}{rng.choice('+-*')}{rng.randint(1, most)}"


def _split(expression: str) -> tuple[int, str, int]:
    sign = next(c for c in expression if not c.isdigit())
    a, b = expression.split(sign)
    return int(a), sign, int(b)
