"""Relay for LangChain: `ChatRelay`, a chat model that is two models taking turns.

Importing this loads neither torch nor transformers.
"""

from __future__ import annotations

from langchain_relay.chat_models import ChatRelay
from relay_integrations import __version__

__all__ = ["ChatRelay", "__version__"]
