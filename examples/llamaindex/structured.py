"""An answer in the form of a class, whole and while it is being filled in. Runs offline, on the tiny pair.

Both force the form: every token that the class does not allow is masked. What is filled in is the models' own doing: the tiny pair does
no more than copy an amount, and not always. The budget is for tasks that tiny models do not know, in which they may reason without end.

python examples/llamaindex/structured.py
"""

from __future__ import annotations

from typing import Literal

from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, Field

from llamaindex_relay import Relay


class Amount(BaseModel):
    """How many of what somebody has."""

    items: Literal["coins", "pens", "cards"]
    count: int = Field(ge=0, le=999)


def main() -> None:
    model = Relay.tiny(temperature=0, max_tokens=700, reasoning_budget=100)
    prompt = PromptTemplate("{name} has {some} coins.")

    amount = model.structured_predict(Amount, prompt, name="Mia", some=12)
    print("structured_predict:", repr(amount))

    print("stream_structured_predict:")
    shown = None
    for partial in model.stream_structured_predict(Amount, prompt, name="Tom", some=55):
        if partial.model_dump() != shown:
            shown = partial.model_dump()
            print("  ", shown)
    model.close()


if __name__ == "__main__":
    main()
