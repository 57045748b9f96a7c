"""As the LLM of agents: by function calling and by text, streamed or not, alone or in a workflow of several."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from workflows.errors import WorkflowRuntimeError

from relay_integrations import BackendError
from relay_integrations.backends.scripted import Reply
from tests.unit.llamaindex_support import answering, core_warns, llm, own_loop, recorded, talker
from tests.unit.support import backend, continuing
from tests.unit.talking import THOUGHT

pytestmark = core_warns

QUESTION = "How is it in 'Rome'?"
ACT = 'Thought: I need the weather.\nAction: weather\nAction Input: {"city": "Rome"}'
ANSWER = "Thought: I can answer without using any more tools.\nAnswer: It is sunny."


@pytest.fixture(autouse=True)
def _own_loop() -> Iterator[None]:
    with own_loop():
        yield


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Sunny in {city}."


def clock() -> str:
    """Tell the time."""
    return "noon"


def react(prompt: str) -> str:
    """Acts, and answers what it has seen."""
    return ANSWER if "Observation: Sunny in Rome." in prompt else ACT


class Ran:
    """What came of running an agent.

    Attributes:
        text: Of its answer.
        streamed: What it streamed.
        results: What its tools returned.
    """

    def __init__(self, text: str, events: list[Any]) -> None:
        self.text = text
        self.streamed = [event for event in events if isinstance(event, AgentStream)]
        self.results = [event.tool_output.content for event in events if isinstance(event, ToolCallResult)]

    @property
    def thinking(self) -> str:
        return "".join(event.thinking_delta or "" for event in self.streamed)


def run(agent: Any, question: str = QUESTION, **how: Any) -> Ran:
    async def main() -> Ran:
        handler = agent.run(user_msg=question, memory=ChatMemoryBuffer.from_defaults(tokenizer_fn=str.split), **how)
        events = [event async for event in handler.stream_events()]
        return Ran(str(await handler), events)

    return asyncio.run(main())


def thought(times: int) -> str:
    return THOUGHT.removeprefix("<think>\n").removesuffix("</think>\n\n") * times


@pytest.mark.parametrize("streaming", [True, False])
def test_a_function_agent_calls_its_tools_and_answers(streaming: bool) -> None:
    with recorded() as told:
        ran = run(FunctionAgent(llm=talker(), tools=[weather, clock], streaming=streaming))
    assert ran.results == ["Sunny in Rome."]
    assert ran.text == "You said: Sunny in Rome.. That is all there is to say about it."
    assert told.reasons.count("cue") == 2 * 2
    assert told.all_closed_once
    assert bool(ran.streamed) == streaming


def test_its_stream_holds_all_of_the_reasoning_and_who_wrote_each_piece() -> None:
    ran = run(FunctionAgent(llm=talker(), tools=[weather]))
    assert ran.thinking == thought(2)
    assert "".join(event.delta for event in ran.streamed) == ran.text
    spoke = [event.raw["relay"]["role"] for event in ran.streamed if isinstance(event.raw, dict) and "role" in event.raw["relay"]]
    assert set(spoke) == {"large", "small"}
    assert not any("think>" in event.delta + event.response + (event.thinking_delta or "") for event in ran.streamed)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_call_is_made_once_with_all_of_its_arguments_however_it_streams(chunk: int) -> None:
    call = f"{THOUGHT}<tool_call>\n" + json.dumps({"name": "weather", "arguments": {"city": "Rome and Ostia"}}) + "\n</tool_call>"
    answers = {True: f"{THOUGHT}Done.", False: call}

    def script(so_far: str, request: Any) -> Any:
        prompt = backend(model.engine, "large").vocabulary.bytes_of(request.ids[: request.output_start]).decode()  # type: ignore[arg-type]
        return continuing(answers["<tool>" in prompt], chunk=chunk)(so_far, request)

    model = llm(script)
    ran = run(FunctionAgent(llm=model, tools=[weather]))
    assert ran.results == ["Sunny in Rome and Ostia."]
    assert ran.text == "Done."


def test_several_calls_at_once_are_all_made() -> None:
    calls = "".join(
        f"\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
        for name, arguments in (("weather", {"city": "Rome"}), ("clock", {}))
    )
    model = answering(lambda prompt: "Done." if "<tool>" in prompt else calls.strip())
    ran = run(FunctionAgent(llm=model, tools=[weather, clock]))
    assert sorted(ran.results) == ["Sunny in Rome.", "noon"]


def test_a_call_that_breaks_off_ends_the_run_and_is_not_made() -> None:
    model = answering(lambda prompt: '<tool_call>\n{"name": "weather", "arguments": {"city": "Ro')
    ran = run(FunctionAgent(llm=model, tools=[weather]))
    assert ran.results == []


def test_the_first_call_can_be_forced() -> None:
    ran = run(FunctionAgent(llm=talker(), tools=[weather, clock], initial_tool_choice="clock"))
    assert ran.results[0] == "noon"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_react_agent_acts_by_text_and_answers(streaming: bool) -> None:
    with recorded() as told:
        ran = run(ReActAgent(llm=answering(react), tools=[weather], streaming=streaming))
    assert ran.results == ["Sunny in Rome."]
    assert ran.text == "It is sunny."
    assert told.reasons.count("cue") == 2 * 2
    assert not streaming or ran.thinking == thought(2)


def test_what_a_react_agent_parses_begins_with_the_answer() -> None:
    tricky = "<think>\nThought: no. Action: clock. So, Answer: no. Now we know.\n</think>\n\n"
    ran = run(ReActAgent(llm=answering(react, tricky), tools=[weather, clock]))
    assert (ran.results, ran.text) == (["Sunny in Rome."], "It is sunny.")


@pytest.mark.parametrize("answer", ["It is sunny.", "Sunny, I would say.\nThat is all."])
def test_a_react_agent_whose_model_forgets_to_say_thought_ends(answer: str) -> None:
    ran = run(ReActAgent(llm=answering(lambda prompt: answer), tools=[weather]))
    assert ran.text == answer


def test_a_react_agent_tells_a_model_that_forgets_to_say_thought_and_it_mends_its_answer() -> None:
    def forgetful(prompt: str) -> str:
        return react(prompt) if "Observation" not in prompt or "Error while parsing" in prompt else ANSWER.partition("\n")[2]

    ran = run(ReActAgent(llm=answering(forgetful), tools=[weather]))
    assert (ran.results, ran.text) == (["Sunny in Rome."], "It is sunny.")


def test_a_react_agent_whose_model_never_says_thought_before_its_answer_ends_by_the_limit() -> None:
    with pytest.raises(WorkflowRuntimeError, match=r"[Mm]ax iterations"):
        run(ReActAgent(llm=answering(lambda prompt: "Answer: It is sunny."), tools=[weather]), max_iterations=3)


def test_a_react_agent_whose_model_only_ever_acts_ends_by_the_limit() -> None:
    with pytest.raises(WorkflowRuntimeError, match=r"[Mm]ax iterations"):
        run(ReActAgent(llm=answering(lambda prompt: ACT), tools=[weather]), max_iterations=3)


@pytest.mark.parametrize("functions", [True, False])
def test_a_workflow_picks_the_agent_that_the_llm_can_be(functions: bool) -> None:
    model = talker() if functions else answering(react, is_function_calling_model=False)
    workflow = AgentWorkflow.from_tools_or_functions([weather], llm=model)
    (agent,) = workflow.agents.values()
    assert isinstance(agent, FunctionAgent if functions else ReActAgent)
    ran = run(workflow)
    assert ran.results == ["Sunny in Rome."]
    assert "unny" in ran.text


def test_agents_hand_over_to_one_another() -> None:
    def reply(prompt: str) -> str:
        if "<tool>" not in prompt:
            return '<tool_call>\n{"name": "handoff", "arguments": {"to_agent": "writer", "reason": "It writes."}}\n</tool_call>'
        return "Sunny, the writer says."

    model = answering(reply)
    agents = [
        FunctionAgent(name=name, description=f"The {name}.", llm=model, tools=[clock], can_handoff_to=others)
        for name, others in (("asker", ["writer"]), ("writer", []))
    ]
    workflow = AgentWorkflow(agents=agents, root_agent="asker")
    ran = run(workflow)
    assert ran.text == "Sunny, the writer says."
    assert ran.streamed[-1].current_agent_name == "writer"


@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("functions", [True, False])
def test_one_call_predicts_and_calls_with_function_calling_and_without(functions: bool, waited: bool) -> None:
    model = talker() if functions else answering(react, is_function_calling_model=False)
    tools = [FunctionTool.from_defaults(weather)]
    how: dict[str, Any] = {"tool_required": functions, "allow_parallel_tool_calls": False}
    made = asyncio.run(model.apredict_and_call(tools, QUESTION, **how)) if waited else model.predict_and_call(tools, QUESTION, **how)
    assert [source.content for source in made.sources] == [str(made)] == ["Sunny in Rome."]


@pytest.mark.parametrize("waited", [False, True])
def test_without_function_calling_an_answer_is_an_answer_and_an_error_an_error(waited: bool) -> None:
    def call(model: Any) -> Any:
        tools = [FunctionTool.from_defaults(weather)]
        return asyncio.run(model.apredict_and_call(tools, QUESTION)) if waited else model.predict_and_call(tools, QUESTION)

    made = call(answering(lambda _: "Thought: I can answer without tools.\nAnswer: It is warm.", is_function_calling_model=False))
    assert (str(made), made.sources) == ("It is warm.", [])
    broken = llm([Reply("<think>", fail_after=0)], engine={"policy": "large-only"}, is_function_calling_model=False)
    with pytest.raises(BackendError, match="scripted failure"):
        call(broken)


def test_the_history_of_a_conversation_goes_on_to_the_next_run() -> None:
    async def main() -> list[str]:
        agent = FunctionAgent(llm=talker(), tools=[weather])
        memory = ChatMemoryBuffer.from_defaults(tokenizer_fn=str.split)
        await agent.run(user_msg=QUESTION, memory=memory)
        await agent.run(user_msg="And in 'Ulm'?", memory=memory)
        return [message.role.value for message in memory.get_all()]

    turn = ["user", "assistant", "tool", "assistant"]
    assert asyncio.run(main()) == turn * 2
