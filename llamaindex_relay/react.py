"""Tools called by text, for an LLM whose function calling is off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine.types import AgentChatResponse
from llama_index.core.tools import BaseTool

if TYPE_CHECKING:
    from llamaindex_relay.llm import Relay


async def react_step(
    llm: Relay,
    tools: Sequence[BaseTool],
    user_msg: str | ChatMessage | None,
    chat_history: Sequence[ChatMessage] | None,
    *,
    verbose: bool = False,
    allow_parallel_tool_calls: bool = False,
    error_on_no_tool_call: bool = True,
    error_on_tool_error: bool = False,
    react_chat_formatter: Any = None,
    output_parser: Any = None,
    tool_retriever: Any = None,
    memory: Any = None,
    **_: Any,
) -> AgentChatResponse:
    """One step of LlamaIndex's ReAct agent, and what the tool that it calls returns; without a call, the agent's answer.

    LlamaIndex's own hands the agent no formatter and no parser, and turns every error into the text of an answer.

    Raises:
        ValueError: A tool failed, and `error_on_tool_error`.
    """
    from llama_index.core.agent.react import ReActChatFormatter, ReActOutputParser
    from llama_index.core.agent.workflow import ReActAgent
    from llama_index.core.agent.workflow.agent_context import SimpleAgentContext
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.core.tools import adapt_to_async_tool
    from llama_index.core.tools.calling import acall_tool_with_selection

    parser = output_parser or ReActOutputParser()
    agent = ReActAgent(
        tools=list(tools),
        llm=llm,
        verbose=verbose,
        formatter=react_chat_formatter or ReActChatFormatter(),
        output_parser=parser,
        tool_retriever=tool_retriever,
    )
    said = ChatMessage(role=MessageRole.USER, content=user_msg) if isinstance(user_msg, str) else user_msg
    asked = [*(chat_history or ()), *([said] if said is not None else [])]
    step = await agent.take_step(
        ctx=SimpleAgentContext(),
        llm_input=asked,
        tools=[adapt_to_async_tool(tool) for tool in tools],
        memory=memory or ChatMemoryBuffer.from_defaults(llm=llm, tokenizer_fn=str.split),
    )
    if not step.tool_calls:
        return AgentChatResponse(response=_answer(parser, step.response.content or ""), sources=[])
    outputs = [await acall_tool_with_selection(call, tools, verbose=verbose) for call in step.tool_calls]
    text = "\n\n".join(output.content for output in outputs)
    if error_on_tool_error and any(output.is_error for output in outputs):
        raise ValueError(text)
    return AgentChatResponse(response=text, sources=outputs)


def _answer(parser: Any, text: str) -> str:
    """What stands behind "Answer:"; all of it, where the model forgot the form."""
    try:
        said = getattr(parser.parse(text), "response", None)
    except ValueError:
        return text
    return said if isinstance(said, str) else text
