"""Settings: what a caller may say about one request, and about failures and prices for a whole engine."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from relay_integrations.chat.response_format import ResponseFormat
from relay_integrations.chat.tool_choice import ToolChoice
from relay_integrations.errors import ConfigError
from relay_integrations.roles import ROLES, Role
from relay_integrations.sampling import Sampling
from relay_integrations.validation import explain, without_surrogates

Model = TypeVar("Model", bound=BaseModel)

OnFailure = Literal["continue", "raise"]


class RequestOptions(BaseModel):
    """Settings of one request.

    Attributes:
        temperature, top_p, top_k, min_p: Sampling for both roles; None takes each model's own default.
        presence_penalty, frequency_penalty: Counted over the whole output of both roles.
        penalties: "output" (default), or "per_hop" to accept backends that count them anew at every hop.
        large_sampling, small_sampling: Overrides for one role, e.g. {"temperature": 0}.
        max_tokens: Most output tokens; None fills the large model's window.
        seed: Repeats a sampled generation; None draws one, which the result names.
        stop: Stop sequences; the run ends at the first, in the reasoning too, and it is not part of the output.
        n: Number of choices.
        reasoning: Thinking on or off; None leaves it to the chat template. Where a template has no switch for it, off means that the
            prompt ends with an empty pair of think tags, which models not trained for that take badly.
        template_options: Further keyword arguments for both chat templates.
        large_token_budget: Most tokens by the large model: a number, or a share (0 < x < 1) of max_tokens.
        reasoning_budget: Most reasoning tokens; the closing tag is then forced.
        tool_choice: "auto" (default): the model decides; "none": no tools are offered; "required" (or "any"): it has to call one;
            a tool's name, or OpenAI's dict with one: it has to call that one.
        parallel_tool_calls: False: at most one call. None leaves it to the model, and calls a tool that `tool_choice` names once.
        response_format: As in OpenAI's API: {"type": "json_object"}, or {"type": "json_schema", "json_schema": {"schema": …}}. The
            answer, where it is no tool call, then follows the schema. The model is not told: say in the prompt what you want.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    penalties: Literal["output", "per_hop"] = "output"
    large_sampling: Sampling = Sampling()
    small_sampling: Sampling = Sampling()
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = Field(None, ge=0)
    stop: tuple[str, ...] = ()
    n: int = Field(1, ge=1, le=128)
    reasoning: bool | None = None
    template_options: dict[str, Any] = Field(default_factory=dict)
    large_token_budget: int | float | None = Field(None, ge=0)
    reasoning_budget: int | None = Field(None, ge=0)
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, stop: Any) -> Any:
        return () if stop is None else (stop,) if isinstance(stop, str) else stop

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if any(not s for s in stop):
            raise ValueError("a stop sequence cannot be empty")
        return tuple(without_surrogates(s) for s in stop)

    @field_validator("tool_choice", mode="before")
    @classmethod
    def _read_tool_choice(cls, choice: Any) -> ToolChoice:
        return ToolChoice.read(choice)

    @field_validator("response_format", mode="before")
    @classmethod
    def _read_response_format(cls, asked: Any) -> ResponseFormat | None:
        return ResponseFormat.read(asked)

    @field_validator("large_token_budget")
    @classmethod
    def _tokens_or_share(cls, budget: int | float | None) -> int | float | None:
        if isinstance(budget, float) and (budget == 1 or (budget > 1 and not budget.is_integer())):
            raise ValueError("give a whole number of tokens, or a share greater than 0 and less than 1")
        return int(budget) if budget is not None and (budget >= 1 or budget == 0) else budget

    @model_validator(mode="after")
    def _share_needs_total(self) -> RequestOptions:
        if isinstance(self.large_token_budget, float) and self.max_tokens is None:
            raise ValueError("large_token_budget as a share needs max_tokens, of which it is a share")
        return self

    @model_validator(mode="after")
    def _one_demand(self) -> RequestOptions:
        if self.tool_choice.forced and self.response_format is not None:
            raise ValueError('tool_choice asks for a tool call and response_format for JSON: leave one out, or use tool_choice="auto"')
        return self

    def sampling(self, role: Role, own: Sampling) -> Sampling:
        """What the caller asked for, over the model's own defaults; still without the neutral values."""
        override = self.large_sampling if role == "large" else self.small_sampling
        general = Sampling(**{name: getattr(self, name) for name in Sampling.model_fields})
        return override.over(general).over(own)

    def large_budget(self) -> int | None:
        """The large model's budget in tokens; a share is rounded down."""
        budget = self.large_token_budget
        if isinstance(budget, float) and self.max_tokens is not None:
            return int(Fraction(str(budget)) * self.max_tokens)  # 0.29 of 100 is 29, which floats make 28.999…
        return None if budget is None else int(budget)


class Prices(BaseModel):
    """Prices of one model, in any currency, per million tokens. Without `cached_input`, cached tokens cost as input."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(None, ge=0)

    def cost(self, sent: int, cached: int | None, generated: int) -> float:
        """Cost of requests that sent and generated so many tokens in all; unknown cached tokens count as not cached."""
        hit = cached or 0
        cached_price = self.input if self.cached_input is None else self.cached_input
        return ((sent - hit) * self.input + hit * cached_price + generated * self.output) / 1e6


class FailureRules(BaseModel):
    """What happens when a backend fails.

    Attributes:
        large, small: "continue": the other model goes on alone where that role fails; "raise": the generation fails.
        retries: How often a failed hop of the leader is tried again first.
        cool_down_after: So many failures of a role in a row open a cool-down.
        cool_down_s: Seconds during which new generations do without that role.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    large: OnFailure = "continue"
    small: OnFailure = "continue"
    retries: int = Field(1, ge=0)
    cool_down_after: int = Field(3, ge=1)
    cool_down_s: float = Field(30.0, ge=0)


def read_options(**options: Any) -> RequestOptions:
    """Checks the keyword arguments of a request.

    Raises:
        ConfigError: Names the argument and what is wrong with it.
    """
    return checked(RequestOptions, options, "argument")


def read_failure_rules(on_failure: OnFailure | Mapping[str, Any] | FailureRules | None) -> FailureRules:
    """Reads `on_failure`: one word for both roles, or the fields of `FailureRules`.

    Raises:
        ConfigError: Names the field and what is wrong with it.
    """
    if isinstance(on_failure, FailureRules):
        return on_failure
    if not isinstance(on_failure, str | Mapping | None):
        raise ConfigError(f"on_failure must be a word or a mapping, not {type(on_failure).__name__}")
    fields = {"large": on_failure, "small": on_failure} if isinstance(on_failure, str) else dict(on_failure or {})
    return checked(FailureRules, fields, "on_failure")


def read_prices(prices: Mapping[Role, Prices | Mapping[str, float]] | None) -> dict[Role, Prices]:
    """Reads `prices`: those of each role, or their fields.

    Raises:
        ConfigError: Names the role or field and what is wrong with it.
    """
    read: dict[Role, Prices] = {}
    if not isinstance(prices, Mapping | None):
        raise ConfigError(f"prices must be a mapping from role to prices, not {type(prices).__name__}")
    for role, price in (prices or {}).items():
        if role not in ROLES:
            raise ConfigError(f"prices has an unknown role {role!r}; the roles are: {', '.join(ROLES)}")
        read[role] = price if isinstance(price, Prices) else checked(Prices, price, f"prices[{role!r}]")
    return read


def checked(model: type[Model], fields: Mapping[str, Any], what: str) -> Model:
    """Builds a settings model, with an error that a person can act on."""
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigError(f"unknown {what} {where!r}; known: {', '.join(sorted(model.model_fields))}") from e
        raise ConfigError(f"{what} {explain(e)}" if where else f"{what}: {explain(e)}") from e
