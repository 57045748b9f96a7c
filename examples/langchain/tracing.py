"""Traces of a relay in LangSmith: the run of the model, and within it a run for each segment.

With LANGSMITH_API_KEY set they go to LangSmith. Without it they go to a stand-in on this machine, which prints what LangSmith would
show. Runs offline, on the tiny pair.

    python examples/langchain/tracing.py
"""

from __future__ import annotations

import os

from langchain_core.tracers.context import tracing_v2_enabled
from langsmith import Client
from langsmith_stand_in import StandIn

from langchain_relay import ChatRelay


def main() -> None:
    model = ChatRelay.tiny(temperature=0, trace_segments="all")
    with StandIn() as stand_in:
        key = os.environ.get("LANGSMITH_API_KEY")
        client = Client() if key else Client(api_url=stand_in.url, api_key="none")
        with tracing_v2_enabled(project_name="relay", client=client):
            model.invoke("Mia has 12 coins. Mia finds 30 more. How many coins does Mia have?", {"run_name": "how many coins"})
        client.flush()
    print("sent to LangSmith, project 'relay'" if key else stand_in.tree())
    model.close()


if __name__ == "__main__":
    main()
