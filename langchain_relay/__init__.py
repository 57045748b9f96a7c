"""Relay for LangChain. The chat model `ChatRelay` comes with a later release."""
