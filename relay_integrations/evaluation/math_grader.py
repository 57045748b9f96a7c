r"""Is the number or formula in the last `\boxed{…}` equal to the reference? math-verify decides, in a process of its own."""

from __future__ import annotations

import importlib.util
import re

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.boxed import is_balanced, last_box
from relay_integrations.evaluation.graders import Grade, Grader
from relay_integrations.evaluation.worker import Worker

TIME_LIMIT_S = 5.0

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}")
_EQUAL, _DIFFERENT = "equal to the reference", "not equal to the reference"


class MathGrader(Grader):
    r"""Compares the last `\boxed{…}` with the reference, as mathematics: 0.5 is \frac12. No box is wrong.

    Args:
        time_limit: Seconds for one comparison; one that takes longer is wrong.

    Raises:
        ConfigError: math-verify is not installed.
    """

    name = "math"

    def __init__(self, time_limit: float = TIME_LIMIT_S) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise ConfigError("the grader 'math' needs math-verify: pip install 'relay-integrations[evaluate]'")
        self._time_limit = time_limit
        self._worker = Worker("math", self.name)

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """As in `Grader`."""
        box = last_box(answer)
        if box is None:
            return Grade(False, None, "no \\boxed{…} in the answer")
        found, wanted = box.content.strip(), _bare(reference)
        if _PLAIN_INTEGER.fullmatch(found) and _PLAIN_INTEGER.fullmatch(wanted):  # the usual case, and no question
            return Grade(found == wanted, found, _EQUAL if found == wanted else _DIFFERENT)
        return self._compare(found, wanted)

    def check(self, reference: str) -> None:
        """As in `Grader`. math-verify reads almost any text as something, so little is refused."""
        bare = _bare(reference)
        if not bare:
            raise ConfigError(f"the reference {reference!r} holds no number and no formula: no answer could equal it")
        if not is_balanced(bare):
            raise ConfigError(f"the braces of the reference {reference!r} do not pair up: no answer could equal it")

    def close(self) -> None:
        """Ends the process; a later answer starts another."""
        self._worker.close()

    def _compare(self, found: str, wanted: str) -> Grade:
        try:
            equal = bool(self._worker.ask(wanted, found, seconds=self._time_limit)["equal"])
        except TimeoutError:
            return Grade(False, found, f"took longer than {self._time_limit:g} s to compare")
        except EOFError:
            return Grade(False, found, "cannot be compared: the comparison ended its process")
        return Grade(equal, found, _EQUAL if equal else _DIFFERENT)


def _bare(reference: str) -> str:
    """A reference without the box or the dollar signs that it may stand in."""
    box = last_box(reference)
    text = (reference if box is None else box.content).strip()
    return text.strip("$").strip() if text.startswith("$") and text.endswith("$") else text
