"""LangChain's standard integration tests, through the real engine: on scripted models that hold a conversation, and on the tiny pair."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests

from langchain_relay import ChatRelay
from relay_integrations import RelayEngine
from relay_integrations.tiny import MAX_TOKENS
from tests.unit.talking import talking_engine

Detail = Literal["audio_input", "audio_output", "reasoning_output", "cache_read_input", "cache_creation_input"]


class Standard(ChatModelIntegrationTests):
    engine: ClassVar[RelayEngine]

    @classmethod
    def setup_class(cls) -> None:
        cls.engine = talking_engine()

    @classmethod
    def teardown_class(cls) -> None:
        cls.engine.close()

    @property
    def chat_model_class(self) -> type[ChatRelay]:
        return ChatRelay

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"engine": self.engine}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "large-only"

    @property
    def supported_usage_metadata_details(self) -> dict[Literal["invoke", "stream"], list[Detail]]:
        return {"invoke": ["reasoning_output"], "stream": ["reasoning_output"]}

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        model = ChatRelay(engine=self.engine)
        if not stream:
            return model.invoke("Why?")
        first, *rest = model.stream("Why?")
        for chunk in rest:
            first += chunk
        return first


class TestToolCalls(Standard):
    pass


class TestJsonSchema(Standard):
    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}


class TestTinyPair(Standard):
    """Real weights: all tests whose assertions are about shape, or about something that these models know."""

    beyond_its_models: ClassVar[set[str]] = {
        "test_json_mode",  # wants the keys that the prompt names
        "test_unicode_tool_call_integration",  # wants Chinese characters
    }

    @classmethod
    def setup_class(cls) -> None:
        cls.engine = RelayEngine.tiny()

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"engine": self.engine, "max_tokens": MAX_TOKENS}
