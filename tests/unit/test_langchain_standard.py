"""LangChain's standard unit tests, all of them. Nothing is loaded: they never generate."""

from __future__ import annotations

from typing import Any

from langchain_tests.unit_tests import ChatModelUnitTests

from langchain_relay import ChatRelay
from relay_integrations.tiny import LARGE, SMALL

URLS = {"RELAY_LARGE_URL": "http://large.example/v1", "RELAY_SMALL_URL": "http://small.example/v1"}


class TestChatRelayStandard(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[ChatRelay]:
        return ChatRelay

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"large": LARGE, "small": SMALL}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        expected = {"large_url": URLS["RELAY_LARGE_URL"], "small_url": URLS["RELAY_SMALL_URL"]}
        return URLS, {**self.chat_model_params, "backend": "transformers"}, expected
