"""`relay run`: one prompt, one answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from relay_integrations.cli import options
from relay_integrations.cli.answer import print_answers, print_events, stream_answer
from relay_integrations.cli.guard import print_note
from relay_integrations.cli.models import ModelChoice
from relay_integrations.cli.prompt import PromptSource
from relay_integrations.cli.stats import print_stats, relay_stats
from relay_integrations.cli.terminal import Terminal
from relay_integrations.errors import MessageError

EXAMPLES = f"""Examples:

relay run "Mia has 55 coins. Mia loses 16. How many coins does Mia have?" --stats

relay run --large Qwen/Qwen3-8B --small Qwen/Qwen3-0.6B --device cuda --max-tokens 4000 --file question.txt > answer.txt

echo '[{{"role": "user", "content": "Hello"}}]' | relay run --messages - --json

relay run --policy random --set p=0.5 --seed 1 "…"

relay run "Which city? Answer in JSON." --response-format schema.json

What --set can set, with its defaults:

{options.policy_settings()}"""


def run(
    ctx: typer.Context,
    prompt: Annotated[str | None, typer.Argument(help="The prompt. Without it, or with -: from stdin.", show_default=False)] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="Take the prompt from this text file.")] = None,
    messages: Annotated[
        str | None, typer.Option("--messages", "-m", help="Take a conversation from this JSON file (- for stdin), OpenAI-style.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", "-t", help="Tools from this JSON file, OpenAI-style; calls are printed as JSON.")
    ] = None,
    system: options.System = None,
    large: options.Large = None,
    small: options.Small = None,
    policy: options.PolicyName = "relaygen",
    settings: options.Settings = None,
    cues: options.Cues = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    device_map: options.DeviceMap = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    stop: options.Stop = None,
    n: options.Choices = 1,
    reasoning: options.Reasoning = None,
    tool_choice: options.ToolChoice = None,
    response_format: options.ResponseFormat = None,
    max_tokens: options.MaxTokens = None,
    large_token_budget: options.LargeBudget = None,
    reasoning_budget: options.ReasoningBudget = None,
    show_reasoning: options.ShowReasoning = None,
    stats: options.Stats = False,
    as_json: options.EventLines = False,
) -> None:
    """Answer one prompt.

    The answer goes to stdout and nothing else does, so it can be piped; the reasoning goes to stderr, in the colours of who writes it.
    """
    terminal: Terminal = ctx.obj
    choice = ModelChoice(large, small, policy, settings or (), cues, device, dtype, device_map)
    choice.check()
    conversation = PromptSource(prompt, file, messages, system).read(terminal.input)
    request = options.request_options(
        tools=_read_tools(tools),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=seed,
        stop=stop or None,
        n=n,
        reasoning=reasoning,
        tool_choice=tool_choice,
        response_format=_read_format(response_format),
        max_tokens=max_tokens,
        large_token_budget=large_token_budget,
        reasoning_budget=reasoning_budget,
    )
    if choice.tiny:
        print_note("this is the tiny pair, which knows little more than word problems; --large and --small choose other models")
    with terminal.engine(choice) as engine:
        if as_json:
            result = print_events(terminal, engine, conversation, request)
        elif n > 1:
            result = print_answers(terminal, engine, conversation, request, show_reasoning)
        else:
            result = stream_answer(terminal, engine, engine.stream(conversation, **request), show_reasoning)
        if stats:
            print_stats(terminal.err, relay_stats(result))


def _read_tools(path: str | None) -> list[dict[str, Any]] | None:
    if path is None:
        return None
    tools = _read_json("--tools", path)
    if not isinstance(tools, list):
        raise MessageError(f"--tools {path!r} holds no list of tools")
    return tools


def _read_format(given: str | None) -> dict[str, Any] | None:
    """A response format as in OpenAI's API: from the word `json`, or from a file that holds one or a bare schema."""
    if given is None:
        return None
    if given == "json":
        return {"type": "json_object"}
    read = _read_json("--response-format", given)
    if not isinstance(read, dict):
        raise MessageError(f"--response-format {given!r} holds no JSON schema")
    whole = read.get("type") in ("text", "json_object", "json_schema")
    return read if whole else {"type": "json_schema", "json_schema": {"name": Path(given).stem, "schema": read}}


def _read_json(option: str, path: str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise MessageError(f"{option} {path!r} cannot be read: {e}") from e
