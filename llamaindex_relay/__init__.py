"""Relay for LlamaIndex. The LLM `Relay` comes with a later release."""
