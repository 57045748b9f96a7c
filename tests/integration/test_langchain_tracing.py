"""What LangSmith is sent, on a recording endpoint: every run is closed, usage stands on the model's run alone, and the tree is right."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_core.tracers.context import tracing_v2_enabled
from langsmith import Client

from examples.langchain.langsmith_stand_in import StandIn
from langchain_relay import ChatRelay
from relay_integrations import __version__
from relay_integrations.backends.scripted import Reply
from tests.unit.langchain_support import chat
from tests.unit.support import eventually, requests
from tests.unit.talking import talking_engine

Tree = list[tuple[str, str, Any]]
"""Name, type and children of each run."""

SEGMENTS = [("relay:large", "chain", []), ("relay:small", "chain", [])]
MODEL = [("ChatRelay", "llm", SEGMENTS)]


class Traced:
    """A block whose runs are recorded: `with traced: …`, and then `traced.tree`."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self.url = stand_in.url
        self._client = Client(api_url=stand_in.url, api_key="none", auto_batch_tracing=True)

    def __enter__(self) -> None:
        self._tracing = tracing_v2_enabled(project_name="tests", client=self._client)
        self._tracing.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._tracing.__exit__(*error)
        self._client.flush()

    @property
    def runs(self) -> list[dict[str, Any]]:
        """All runs, parents before their children."""
        return sorted(self._stand_in.runs.values(), key=lambda run: str(run["dotted_order"]))

    def of(self, kind: str, name: str | None = None) -> list[dict[str, Any]]:
        return [run for run in self.runs if run["run_type"] == kind and name in (None, run["name"])]

    @property
    def tree(self) -> Tree:
        """The runs within one another."""

        def within(parent: str | None) -> Tree:
            return [(run["name"], run["run_type"], within(run["id"])) for run in self.runs if run.get("parent_run_id") == parent]

        return within(None)

    @property
    def all_closed(self) -> bool:
        return all(run.get("end_time") for run in self.runs)

    def usage(self) -> dict[str, Any]:
        """The usage of each run that says some, by the run's name."""
        found = {}
        for run in self.runs:
            usage = (run["extra"].get("metadata") or {}).get("usage_metadata")
            if usage or "usage_metadata" in (run.get("outputs") or {}):
                found[run["name"]] = usage
        return found


@pytest.fixture
def traced() -> Iterator[Traced]:
    with StandIn() as stand_in:
        yield Traced(stand_in)


async def _astream(model: Any, config: Any = None) -> None:
    async for _ in model.astream("hi", config):
        pass


WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda model: model.invoke("hi"),
    "stream": lambda model: list(model.stream("hi")),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("hi")),
    "astream": lambda model: asyncio.run(_astream(model)),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@every_way
def test_a_call_is_one_run_with_one_for_each_role_within_it(traced: Traced, way: Callable[[Any], Any]) -> None:
    with traced:
        way(chat(seed=1))
    assert traced.tree == MODEL
    assert traced.all_closed
    assert not any(run.get("error") for run in traced.runs)
    assert list(traced.usage()) == ["ChatRelay"]
    assert traced.usage()["ChatRelay"]["output_tokens"] == 42 == sum(r["outputs"]["relay_usage"]["tokens"] for r in traced.of("chain"))


def test_the_models_run_says_what_ran_and_how(traced: Traced) -> None:
    with traced:
        chat(seed=1, temperature=0.5, max_tokens=99, stop=["x"]).invoke("hi")
    (run,) = traced.of("llm")
    metadata = run["extra"]["metadata"]
    assert {
        key: metadata[key] for key in ("ls_provider", "ls_model_name", "ls_model_type", "ls_temperature", "ls_max_tokens", "ls_stop")
    } == {
        "ls_provider": "relay",
        "ls_model_name": "big+tiny",
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 99,
        "ls_stop": ["x"],
    }
    assert metadata["lc_versions"]["langchain-relay"] == __version__
    message = run["outputs"]["generations"][0][0]["message"]["kwargs"]
    assert message["response_metadata"]["relay"]["handoffs"] == {"cue": 2, "sentence_end": 2, "think_end": 1}
    for inner in traced.of("chain"):
        assert not [key for key in inner["extra"]["metadata"] if key.startswith("ls_model")]


@every_way
def test_all_segments_are_runs_if_asked_for_in_their_order(traced: Traced, way: Callable[[Any], Any]) -> None:
    with traced:
        way(chat(seed=1, trace_segments="all"))
    assert [name for name, *_ in traced.tree[0][2]] == ["relay:large", "relay:small"] * 3
    segments = traced.of("chain")
    assert traced.all_closed
    for run, following in itertools.pairwise(segments):
        assert run["start_time"] <= run["end_time"] <= following["start_time"]
    (model,) = traced.of("llm")
    assert model["start_time"] <= segments[0]["start_time"]
    assert segments[-1]["end_time"] <= model["end_time"]


def test_no_segments_are_runs_if_not_wanted(traced: Traced) -> None:
    with traced:
        chat(trace_segments="none").invoke("hi")
    assert traced.tree == [("ChatRelay", "llm", [])]


@pytest.mark.parametrize("async_", [False, True])
def test_a_batch_is_as_many_trees(traced: Traced, async_: bool) -> None:
    model, prompts = chat(seed=1), [f"hi {i}" for i in range(4)]
    with traced:
        asyncio.run(model.abatch(prompts)) if async_ else model.batch(prompts)
    assert traced.tree == 4 * MODEL
    assert traced.all_closed


def test_in_a_chain_the_tree_is_one_deeper(traced: Traced) -> None:
    chain = ChatPromptTemplate.from_messages([("human", "{x}")]) | chat(seed=1) | StrOutputParser()
    with traced:
        "".join(chain.stream({"x": "hi"}))
    ((name, kind, children),) = traced.tree
    assert (name, kind) == ("RunnableSequence", "chain")
    assert sorted(children) == sorted([("ChatPromptTemplate", "prompt", []), *MODEL, ("StrOutputParser", "parser", [])])
    assert traced.all_closed


def test_an_agent_has_the_tree_of_each_of_its_calls(traced: Traced) -> None:
    @tool
    def weather(city: str) -> str:
        """Tell the weather in a city."""
        return f"Sunny in {city}."

    with talking_engine() as engine, traced:
        create_agent(ChatRelay(engine=engine, seed=1), [weather]).invoke({"messages": [("human", "How is it in 'Rome'?")]})
    models = traced.of("llm")
    assert len(models) == 2
    assert traced.all_closed
    assert not any(run.get("error") for run in traced.runs)
    for model in models:
        assert [run["name"] for run in traced.runs if run.get("parent_run_id") == model["id"]] == ["relay:large", "relay:small"]
    assert [run["name"] for run in traced.of("tool")] == ["weather"]
    assert set(traced.usage()) == {"ChatRelay"}


@every_way
def test_an_error_closes_every_run_with_it(traced: Traced, way: Callable[[Any], Any]) -> None:
    model = chat([Reply("<think>\nFirst we", fail_after=2)], engine={"on_failure": "raise"})
    with pytest.raises(Exception, match="scripted failure"), traced:
        way(model)
    assert traced.tree == [("ChatRelay", "llm", [("relay:large", "chain", [])])]
    assert traced.all_closed
    assert all("scripted failure" in run["error"] for run in traced.runs)


def test_a_stream_that_is_left_closes_every_run(traced: Traced) -> None:
    with traced:
        for _ in chat().stream("hi"):
            break
    assert traced.all_closed
    assert all("GeneratorExit" in run["error"] for run in traced.runs)


@pytest.mark.parametrize("call", [lambda model: model.ainvoke("hi"), _astream])
def test_a_cancelled_task_closes_every_run(traced: Traced, call: Callable[[Any], Any]) -> None:
    model = chat([Reply("<think>\nFirst we add", stall_after=3)])

    async def main() -> None:
        task = asyncio.create_task(call(model))
        assert model.engine is not None
        assert await asyncio.to_thread(eventually, lambda: requests(model.engine) == 1)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with traced:
        asyncio.run(main())
    assert traced.of("llm")
    assert traced.all_closed
    assert all("CancelledError" in run["error"] for run in traced.runs)


def test_a_second_call_in_the_same_block_has_a_tree_of_its_own(traced: Traced) -> None:
    model = chat(seed=1)
    with traced:
        model.invoke("hi")
        list(model.stream("hi"))
    assert traced.tree == 2 * MODEL


def test_tracing_that_the_environment_turns_on_is_the_same(traced: Traced) -> None:
    code = """if True:
        from langchain_core.tracers.langchain import wait_for_all_tracers
        from tests.unit.langchain_support import chat
        model = chat(seed=1)
        model.invoke("hi")
        list(model.stream("hi"))
        wait_for_all_tracers()"""
    settings = {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": traced.url, "LANGSMITH_API_KEY": "none"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert traced.tree == 2 * MODEL
    assert traced.all_closed
