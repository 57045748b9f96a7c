"""Does the relay hurt the answers? It and the large model alone answer the same items, and every answer is judged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from relay_integrations.engine import RelayEngine
from relay_integrations.errors import BackendError, ConfigError, MessageError, NotSupported, PromptTooLong
from relay_integrations.evaluation.answers import Answer, AnswerFile, Key, fingerprint
from relay_integrations.evaluation.data import Item
from relay_integrations.evaluation.graders import Grade
from relay_integrations.evaluation.grading import ItemGraders
from relay_integrations.policies import LargeOnly, Policy
from relay_integrations.result import RelayChoice, RelayResult

Progress = Callable[[int, int], None]
"""Takes how many answers there are, and how many there will be."""


class Comparison:
    """The large model alone and a relay on the same items, in turn, so that a machine that slows down slows both.

    Args:
        engine: Of the pair.
        items: What is asked.
        graders: Judge the answers.
        relay: The policy to compare; the engine's own by default.
        samples: Answers for each item and policy. Each has its own seed, the same for both policies.
        seed: Of these seeds.
        concurrency: How many answers are generated at once.
        options: Further arguments of `RelayEngine.agenerate`; a large-token budget is the relay's alone.
        file: Keeps the answers; what it holds already is not generated anew, unless it failed.

    Attributes:
        relay: The policy that is compared.
        answers: All so far.

    Raises:
        ConfigError: The policy is the large model alone, or the file holds answers to items that have changed.
    """

    def __init__(
        self,
        engine: RelayEngine,
        items: Sequence[Item],
        graders: ItemGraders,
        *,
        relay: Policy | None = None,
        samples: int = 1,
        seed: int = 0,
        concurrency: int = 1,
        options: Mapping[str, Any] | None = None,
        file: AnswerFile | None = None,
    ) -> None:
        self.relay = engine.policy if relay is None else relay
        if isinstance(self.relay, LargeOnly):
            raise ConfigError("the policy is large-only, which is what it would be compared with: choose another, e.g. relaygen")
        self.items = items
        self.samples = samples
        self.answers: dict[Key, Answer] = {}
        self._engine = engine
        self._graders = graders
        self._seed = seed
        self._concurrency = concurrency
        self._options = dict(options or {})
        self._file = file
        self._progress: Progress = lambda done, total: None
        self._marks = {item.id: fingerprint(item, graders.of(item).name) for item in items}
        if file is not None:
            self._take_up(file)

    @property
    def total(self) -> int:
        """How many answers there will be."""
        return 2 * self.samples * len(self.items)

    async def run(self, progress: Progress | None = None) -> None:
        """Gets all answers. Where it is cancelled or fails, `answers` holds those that were complete.

        Args:
            progress: Told about each.

        Raises:
            ConfigError: A grader cannot work, or an item cannot be asked; names the item.
            RelayError: The engine cannot work; an answer that fails is none of these.
        """
        self._progress = progress or self._progress
        self._progress(len(self.answers), self.total)
        turns = self._turns()
        count = min(self._concurrency, self.total - len(self.answers))
        workers = [asyncio.create_task(self._work(turns)) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._graders.close()  # nobody waits for their verdicts any more
            raise

    def _take_up(self, file: AnswerFile) -> None:
        """Takes over what the file holds of what is asked."""
        policies = (LargeOnly.name, self.relay.name)
        for answer in file.answers.values():
            if answer.item not in self._marks or answer.sample >= self.samples or answer.policy not in policies:
                continue
            if answer.fingerprint != self._marks[answer.item]:
                raise ConfigError(
                    f"{str(file.path)!r} holds an answer to another item {answer.item!r}: the data have changed since, "
                    "or how they are judged; choose another file"
                )
            if answer.error is None:
                self.answers[answer.key] = answer

    def _all(self) -> Iterator[tuple[Item, int, Policy]]:
        """Every turn; who goes first changes from one item to the next."""
        policies = (LargeOnly(), self.relay)
        for number, item in enumerate(self.items):
            for sample in range(self.samples):
                first = (number + sample) % 2
                yield item, sample, policies[first]
                yield item, sample, policies[1 - first]

    def _turns(self) -> Iterator[tuple[Item, int, Policy]]:
        return (turn for turn in self._all() if (turn[0].id, turn[1], turn[2].name) not in self.answers)

    async def _work(self, turns: Iterator[tuple[Item, int, Policy]]) -> None:
        for item, sample, policy in turns:
            answer = await self._answer(item, sample, policy)
            self.answers[answer.key] = answer
            if self._file is not None:
                self._file.add(answer)
            self._progress(len(self.answers), self.total)

    async def _answer(self, item: Item, sample: int, policy: Policy) -> Answer:
        options = dict(self._options)
        if isinstance(policy, LargeOnly):
            options.pop("large_token_budget", None)
        options["seed"] = Random(f"{self._seed}/{item.id}/{sample}").getrandbits(31)
        error: str | None = None
        began = time.perf_counter()
        try:
            result = await self._engine.agenerate(item.messages, policy=policy, tools=item.tools or None, **options)
        except (BackendError, PromptTooLong) as e:
            result, error = e.partial or RelayResult([RelayChoice()]), str(e)
        except (MessageError, NotSupported) as e:  # a mistake, and not chance: it would fail each time
            raise ConfigError(f"item {item.id!r} cannot be asked: {e}") from e
        seconds = time.perf_counter() - began
        text = answer_text(result)
        if error is None:
            grade = await asyncio.to_thread(self._graders.grade, item, text)
        else:
            grade = Grade(False, None, "failed")
        usage = result.usage
        return Answer(
            item=item.id,
            fingerprint=self._marks[item.id],
            policy=policy.name,
            sample=sample,
            seed=options["seed"],
            right=grade.right,
            found=grade.found,
            detail=grade.detail,
            grader=self._graders.of(item).name,
            text=text,
            written=tuple((segment.role, segment.text) for segment in result.segments),
            finish_reason=result.finish_reason,
            tokens=usage.completion_tokens,
            large_tokens=usage.large_tokens,
            handoffs=len(result.handoffs),
            seconds=seconds,
            cost=usage.cost,
            bridged=_bridged(result) if error is None else None,
            error=error,
        )


def answer_text(result: RelayResult) -> str:
    """What is judged: the answer, and each tool call as a line of JSON."""
    calls = [json.dumps(call.model_dump(), ensure_ascii=False) for call in result.tool_calls]
    return "\n".join([*([result.text] if result.text or not calls else []), *calls])


def _bridged(result: RelayResult) -> str | None:
    if not any(segment.reason == "fallback" for segment in result.segments):
        return None
    return next((segment.error for segment in result.segments if segment.error), "a window was full, or a model was cooling down")
