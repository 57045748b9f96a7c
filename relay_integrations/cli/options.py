"""The options that several commands have, and how they become a choice of models and the settings of a request."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from relay_integrations.policies import POLICIES

_MODELS = "Models and policy"
_REQUEST = "Generation"
_BUDGETS = "Budgets"
_OUTPUT = "Output"

Large = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Large model: a folder or a Hugging Face id. Without it: the tiny pair that ships with relay.",
        rich_help_panel=_MODELS,
    ),
]
Small = Annotated[str | None, typer.Option(metavar="MODEL", help="Small model: a folder or a Hugging Face id.", rich_help_panel=_MODELS)]
PolicyName = Annotated[
    str, typer.Option("--policy", metavar="NAME", help=f"Who writes when. One of: {', '.join(POLICIES)}.", rich_help_panel=_MODELS)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of the policy (listed at the end); may be repeated.", rich_help_panel=_MODELS
    ),
]
Cues = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="Cue profile: the name of a shipped one or a JSON file. Without it: the pair's own, found by the models' names.",
        rich_help_panel=_MODELS,
    ),
]
Device = Annotated[
    str | None, typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:1, mps. Without it: the best there is.", rich_help_panel=_MODELS)
]
Dtype = Annotated[str | None, typer.Option(metavar="DTYPE", help="auto, float32, bfloat16 or float16.", rich_help_panel=_MODELS)]
DeviceMap = Annotated[
    str | None,
    typer.Option(metavar="MAP", help="Spreads each model over several devices, e.g. auto; instead of --device.", rich_help_panel=_MODELS),
]

System = Annotated[str | None, typer.Option(metavar="TEXT", help="System message.", rich_help_panel=_REQUEST)]
Temperature = Annotated[
    float | None,
    typer.Option(metavar="T", help="0 is greedy. Without sampling options: each model's own defaults.", rich_help_panel=_REQUEST),
]
TopP = Annotated[float | None, typer.Option(metavar="P", help="Smallest set of tokens with this probability.", rich_help_panel=_REQUEST)]
TopK = Annotated[int | None, typer.Option(metavar="K", help="Only the K most likely tokens; 0 is all.", rich_help_panel=_REQUEST)]
MinP = Annotated[
    float | None, typer.Option(metavar="P", help="Least probability, relative to the likeliest token's.", rich_help_panel=_REQUEST)
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Repeats a sampled generation.", rich_help_panel=_REQUEST)]
Stop = Annotated[list[str] | None, typer.Option(metavar="TEXT", help="End at this text; may be repeated.", rich_help_panel=_REQUEST)]
Choices = Annotated[int, typer.Option("-n", "--n", metavar="N", min=1, help="Number of answers.", rich_help_panel=_REQUEST)]
Reasoning = Annotated[
    bool | None,
    typer.Option(
        "--reasoning/--no-reasoning",
        metavar="",
        help="Thinking on or off. Without it: as the chat template says.",
        rich_help_panel=_REQUEST,
    ),
]
ToolChoice = Annotated[
    str | None,
    typer.Option(metavar="CHOICE", help="auto, none, required, or the name of the tool that has to be called.", rich_help_panel=_REQUEST),
]
ResponseFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|json",
        help="The answer is JSON: any object (json), or one by the schema in this JSON file. The prompt has to ask for it too.",
        rich_help_panel=_REQUEST,
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(metavar="N", help="Most output tokens. Without it: what fits the window.", rich_help_panel=_BUDGETS)
]
LargeBudget = Annotated[
    float | None,
    typer.Option(
        "--large-token-budget",
        metavar="N|SHARE",
        help="Most tokens by the large model: a number, or a share of --max-tokens (0.5).",
        rich_help_panel=_BUDGETS,
    ),
]
ReasoningBudget = Annotated[
    int | None, typer.Option(metavar="N", help="Most reasoning tokens; then the answer begins.", rich_help_panel=_BUDGETS)
]

ShowReasoning = Annotated[
    bool | None,
    typer.Option(
        "--show-reasoning/--hide-reasoning",
        metavar="",
        help="Reasoning on stderr. Without it: if stderr is a terminal.",
        rich_help_panel=_OUTPUT,
    ),
]
Stats = Annotated[bool, typer.Option("--stats", metavar="", help="Afterwards, who wrote how much, on stderr.", rich_help_panel=_OUTPUT)]
EventLines = Annotated[bool, typer.Option("--json", metavar="", help="Every event as one line of JSON.", rich_help_panel=_OUTPUT)]
ReportJson = Annotated[bool, typer.Option("--json", metavar="", help="One JSON object instead of a table.")]


def policy_settings() -> str:
    """What `--set` can set, by policy; for the end of a help page."""
    lines = []
    for name, policy in POLICIES.items():
        defaults = {key: field.default for key, field in policy.model_fields.items() if key != "cues"}
        if defaults:
            lines.append(f"{name}: " + ", ".join(f"{key}={_spell(default)}" for key, default in defaults.items()))
    return "\n\n".join(lines)


def request_options(**options: Any) -> dict[str, Any]:
    """The arguments of a request: those that were given."""
    return {key: value for key, value in options.items() if value is not None}


def _spell(value: Any) -> str:
    """A value as `--set` takes it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
