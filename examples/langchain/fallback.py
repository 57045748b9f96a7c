"""A relay whose models cannot be reached falls back to another model. Runs offline; the fallback is the tiny pair.

python examples/langchain/fallback.py
"""

from __future__ import annotations

import logging

from langchain_relay import ChatRelay
from relay_integrations import RelayEngine, RelayError
from relay_integrations.backends.scripted import Reply, ScriptedBackend

QUESTION = "Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?"


def main() -> None:
    logging.getLogger("relay_integrations").setLevel(logging.ERROR)

    # One model that fails is bridged by the relay itself: the other one goes on alone.
    text = "<think>\nTwelve and thirty. So, that makes forty-two. Done.\n</think>\n\n42."
    limping = RelayEngine(
        ScriptedBackend(text, name="large"), ScriptedBackend([Reply(fail_after=0)], name="small"), cue_profile={"name": "x", "cues": ["So"]}
    )
    message = ChatRelay(engine=limping).invoke(QUESTION)
    print("one model down: ", message.text, "handoffs:", message.response_metadata["relay"]["handoffs"])

    # Where both fail, or `on_failure="raise"`, it is for LangChain to bridge.
    down = [ScriptedBackend([Reply(fail_after=0)], name=name) for name in ("large", "small")]
    tiny = ChatRelay.tiny(temperature=0)
    model = ChatRelay(engine=RelayEngine(*down, policy="large-only")).with_fallbacks([tiny], exceptions_to_handle=(RelayError,))
    message = model.invoke(QUESTION)
    print("both down:      ", message.text.replace("\n", " "), "by", message.response_metadata["model_name"])
    tiny.close()


if __name__ == "__main__":
    main()
