"""Holds a model to a constraint: which tokens may come next, by llguidance."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import torch

from relay_integrations.backends.lark import grammar, schema_grammar
from relay_integrations.chat.constraint import Constraint
from relay_integrations.errors import ConfigError, ConstraintFailed, NotSupported

MOST_KEPT = 64
"""Compiled constraints that are kept: one for each set of tools or schema in use."""


class Guides:
    """The constraints of one model, compiled once. Usable from any thread.

    Args:
        tokenizer: A fast `transformers` tokenizer.
        size: Length of the logits.
        eos_ids: Ids that end a turn; they are allowed exactly where a constraint is fulfilled.
        name: The model's, for errors.
    """

    def __init__(self, tokenizer: Any, size: int, eos_ids: Iterable[int], name: str) -> None:
        self._tokenizer = tokenizer
        self._size = size
        self._eos_ids = sorted(eos_ids)
        self._name = name
        self._lock = threading.Lock()
        self._vocabulary: Any = None
        self._tokens: dict[str, int] = {}
        self._kept: OrderedDict[Constraint, Any] = OrderedDict()

    def check(self, constraint: Constraint) -> None:
        """Compiles a constraint.

        Raises:
            ConfigError: One of its schemas cannot be followed, or llguidance is missing.
            NotSupported: The tokenizer is none that llguidance reads.
        """
        self._compiled(constraint)

    def begin(self, constraint: Constraint, written: Sequence[int]) -> Guide:
        """A guide for text that continues `written`.

        Raises:
            ConfigError: As in `check`.
            ConstraintFailed: What is written is not the beginning of any text that the constraint allows.
        """
        guide = Guide(self._compiled(constraint).deep_copy(), self._size)
        if written:
            guide.take(written)
        return guide

    def _compiled(self, constraint: Constraint) -> Any:
        with self._lock:
            if constraint in self._kept:
                self._kept.move_to_end(constraint)
                return self._kept[constraint]
            self._open()
            made = self._kept[constraint] = self._compile(constraint)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return made

    def _open(self) -> None:
        """Reads the tokenizer, which takes about a second for a large one."""
        if self._vocabulary is not None:
            return
        try:
            from llguidance import LLTokenizer
        except ImportError as e:
            raise ConfigError("tool_choice and response_format need llguidance: pip install 'relay-integrations[transformers]'") from e
        try:
            self._vocabulary = LLTokenizer(_described(self._tokenizer), n_vocab=self._size, eos_token=self._eos_ids)
        except ValueError as e:
            raise NotSupported(self._name, "constrained output", f"its tokenizer cannot be read: {e}") from e
        special = self._vocabulary.is_special_token
        self._tokens = {text: token for text, token in self._tokenizer.get_added_vocab().items() if special(token)}

    def _compile(self, constraint: Constraint) -> Any:
        from llguidance import LLMatcher

        matcher = LLMatcher(self._vocabulary, grammar(constraint, self._tokens), log_level=0)
        if not matcher.is_error():
            return matcher
        for piece in (piece for row in constraint.rows for piece in row.pieces):
            if problem := LLMatcher.validate_grammar(schema_grammar(piece.schema), self._vocabulary):
                raise ConfigError(f"the schema of {piece.about} cannot be followed by {self._name!r}: {_first_line(problem)}")
        raise ConfigError(f"the constraint cannot be followed by {self._name!r}: {_first_line(matcher.get_error())}")


class Guide:
    """Follows one text.

    Args:
        matcher: A matcher of its own.
        size: Length of the logits.
    """

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher = matcher
        self._size = size

    def allowed(self, device: torch.device) -> torch.Tensor:
        """Which tokens may come next, one truth value each.

        Raises:
            ConstraintFailed: The text has become too complex to follow.
        """
        bits = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.uint8).to(device)
        self._check()
        shifts = torch.arange(8, dtype=torch.uint8, device=device)
        return ((bits[:, None] >> shifts) & 1).flatten()[: self._size].bool()

    def take(self, tokens: Sequence[int]) -> None:
        """Takes the tokens that were chosen.

        Raises:
            ConstraintFailed: They are not allowed here.
        """
        self._matcher.consume_tokens(list(tokens))
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            said = _first_line(self._matcher.get_error())
            hint = "is the schema recursive without an end, or very large?"
            raise ConstraintFailed(f"the text does not follow its constraint: {said}; {hint}")


def _described(tokenizer: Any) -> str:
    """A fast tokenizer as JSON. Without the space that some put in front of a text: here a text continues another."""
    rust = getattr(tokenizer, "backend_tokenizer", None)
    if rust is None:
        raise ValueError("it is written in Python, not one of the fast ones")
    rust = copy(rust)
    rust.no_padding()
    rust.no_truncation()
    return str(rust.to_str()).replace('"add_prefix_space":true', '"add_prefix_space":false')


def _first_line(problem: str) -> str:
    """What llguidance says, without the grammar that it quotes."""
    line = " ".join(problem.split("\n   1 |")[0].splitlines()[:4]) if problem.startswith("at ") else problem.splitlines()[0]
    return line.split("failed to compile JSON schema: ")[-1].strip()
