"""Patterns judge: the reference is one, or one finds what is compared with the reference. They search in a process of its own."""

from __future__ import annotations

import re
import warnings

from relay_integrations.errors import ConfigError
from relay_integrations.evaluation.graders import Grade, Grader, check_not_blank, compared, plain_text
from relay_integrations.evaluation.worker import Worker

TIME_LIMIT_S = 5.0

_NOT_FOUND = "the pattern is not in the answer"


class RegexGrader(Grader):
    """The reference is a pattern; an answer in which it is found is right.

    Args:
        time_limit: Seconds for one answer; one that takes longer is wrong.
    """

    name = "regex"

    def __init__(self, time_limit: float = TIME_LIMIT_S) -> None:
        self._search = _Search(self.name, time_limit)

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """As in `Grader`."""
        found = self._search.find(reference, answer, "first")
        return found if isinstance(found, Grade) else Grade(True, found, "the pattern is in the answer")

    def check(self, reference: str) -> None:
        """As in `Grader`."""
        check_not_blank(reference)
        check_pattern(reference, "the reference")

    def close(self) -> None:
        """Ends the process; a later answer starts another."""
        self._search.worker.close()


class PatternGrader(Grader):
    """What a pattern finds last is compared with the reference, as in `ExactGrader`.

    Of a pattern with groups, the first that took part is what it finds; where it matches nothing but emptiness, it finds nothing.

    Args:
        pattern: A regular expression.
        time_limit: Seconds for one answer; one that takes longer is wrong.

    Raises:
        ConfigError: It is none.
    """

    def __init__(self, pattern: str, time_limit: float = TIME_LIMIT_S) -> None:
        self.name = f"regex:{pattern}"
        check_pattern(pattern, "the grader's pattern")
        self._pattern = pattern
        self._search = _Search(self.name, time_limit)

    def grade(self, answer: str, reference: str, question: str = "") -> Grade:
        """As in `Grader`."""
        found = self._search.find(self._pattern, answer, "last")
        return found if isinstance(found, Grade) else compared(plain_text(found), plain_text(reference))

    def check(self, reference: str) -> None:
        """As in `Grader`."""
        check_not_blank(reference)

    def close(self) -> None:
        """Ends the process; a later answer starts another."""
        self._search.worker.close()


class _Search:
    """Searches answers, for a grader of that name."""

    def __init__(self, grader: str, time_limit: float) -> None:
        self.worker = Worker("search", grader)
        self._time_limit = time_limit

    def find(self, pattern: str, answer: str, which: str) -> str | Grade:
        """What is found first or last; where there is nothing, the verdict."""
        try:
            found: str | None = self.worker.ask(pattern, answer, which, seconds=self._time_limit)["found"]
        except TimeoutError:
            return Grade(False, None, f"took longer than {self._time_limit:g} s to search: make the pattern simpler")
        except EOFError:
            return Grade(False, None, "cannot be searched: the search ended its process")
        return Grade(False, None, _NOT_FOUND) if found is None else found


def check_pattern(pattern: str, what: str) -> None:
    """Checks that a text is a pattern.

    Raises:
        ConfigError: It is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what may mean something else one day
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise ConfigError(f"{what} {pattern!r} is no regular expression: {e}") from e
