"""The LLM run around a generation, as far as its segments need it.

Two things make this necessary. `stream` and `astream` of langchain-core, and its implicit streaming, hand no run manager to
`_stream`; and the managers of LLM runs that other paths do hand over have no children, and ignore custom events. So the chat model
keeps a scope in a context variable while a generation begins, and the generation takes what it needs from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager, BaseRunManager, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.utils.uuid import uuid7

if TYPE_CHECKING:
    from langchain_relay.relaying import AsyncRelaying, Relaying

Manager = TypeVar("Manager", bound=BaseCallbackManager)


@dataclass(slots=True)
class RunScope:
    """What one LLM run knows of its handlers, and what runs within it.

    Attributes:
        run_id: Of the LLM run; parent of its segments, and what its custom events belong to.
        handlers: All that listen to the LLM run.
        inheritable_handlers: Those of them that listen to what happens within it, too.
        tags, inheritable_tags, metadata, inheritable_metadata: As in callback managers.
        running, running_async: The generation that must end when the run does.
    """

    run_id: UUID
    handlers: list[BaseCallbackHandler]
    inheritable_handlers: list[BaseCallbackHandler]
    tags: list[str] = field(default_factory=list)
    inheritable_tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    inheritable_metadata: dict[str, Any] = field(default_factory=dict)
    running: Relaying | None = None
    running_async: AsyncRelaying | None = None

    @classmethod
    def of(cls, manager: BaseRunManager | BaseCallbackManager, run_id: UUID) -> RunScope:
        """The scope of a run, from its own manager or from the one that starts it."""
        return cls(
            run_id,
            manager.handlers,
            manager.inheritable_handlers,
            manager.tags,
            manager.inheritable_tags,
            manager.metadata,
            manager.inheritable_metadata,
        )

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self.handlers or self.inheritable_handlers)

    def for_events(self, kind: type[Manager]) -> Manager:
        """A manager for custom events of the LLM run."""
        return kind(
            handlers=self.handlers,
            inheritable_handlers=self.inheritable_handlers,
            parent_run_id=self.run_id,
            tags=self.tags,
            inheritable_tags=self.inheritable_tags,
            metadata=self.metadata,
            inheritable_metadata=self.inheritable_metadata,
        )

    def for_children(self, kind: type[Manager]) -> Manager:
        """A manager for runs within the LLM run. What LangSmith reads as facts about an LLM (`ls_…`) stays with the LLM run."""
        metadata = {key: value for key, value in self.inheritable_metadata.items() if not key.startswith("ls_")}
        return kind(
            handlers=list(self.inheritable_handlers),
            inheritable_handlers=list(self.inheritable_handlers),
            parent_run_id=self.run_id,
            tags=list(self.inheritable_tags),
            inheritable_tags=list(self.inheritable_tags),
            metadata=dict(metadata),
            inheritable_metadata=metadata,
        )

    def close(self, error: BaseException) -> None:
        """Ends what still runs within a run that ends early."""
        if self.running is not None:
            self.running.close(error)

    async def aclose(self, error: BaseException) -> None:
        """As `close`, for what async code reads."""
        if self.running_async is not None:
            await self.running_async.aclose(error)


_current: ContextVar[RunScope | None] = ContextVar("relay_run_scope", default=None)


def current_scope() -> RunScope | None:
    """The scope of the run that is beginning here, if one is."""
    return _current.get()


@contextmanager
def beginning(scope: RunScope | None) -> Iterator[None]:
    """What begins within this block belongs to the scope."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def open_run(
    model: BaseChatModel, config: RunnableConfig | None, kind: type[CallbackManager] | type[AsyncCallbackManager]
) -> tuple[RunnableConfig, RunScope]:
    """The scope of a run that langchain-core is about to start, and the config that makes it start this very run.

    The handlers are made here, once: core would make new ones where tracing is turned on by the environment.
    """
    config = ensure_config(config)
    manager = kind.configure(config.get("callbacks"))
    run_id = config.get("run_id") or uuid7()
    own = kind.configure(manager, model.callbacks, False, config.get("tags"), model.tags, config.get("metadata"), model.metadata)
    return {**config, "callbacks": manager, "run_id": run_id}, RunScope.of(own, run_id)
