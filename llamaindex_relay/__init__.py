"""Relay for LlamaIndex: `Relay`, an LLM that is two models taking turns.

Importing this loads neither torch nor transformers.
"""

from __future__ import annotations

from llamaindex_relay.events import RelayHandoffEvent, RelaySegmentEndEvent, RelaySegmentStartEvent
from llamaindex_relay.llm import Relay
from relay_integrations import __version__

__all__ = ["Relay", "RelayHandoffEvent", "RelaySegmentEndEvent", "RelaySegmentStartEvent", "__version__"]
