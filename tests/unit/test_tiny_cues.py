"""How the cues of the tiny models are looked for: the sentences of a trace, and what opens them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from relay_integrations.tiny.cues import sentences
from relay_integrations.tiny.tasks import FAMILIES, problems


def test_sentences_have_their_opener_and_their_end() -> None:
    text = "<think>\nOkay, Mia starts with 4 coins.\n\nFirst, we add 2. 4+2=6. This means Mia is glad. In other words, 3.5 is it."
    found = [(opener, text[begin:end]) for opener, begin, end in sentences(text)]
    assert found == [
        ("Okay", ", Mia starts with 4 coins."),
        ("First", ", we add 2."),
        ("4", "+2=6."),
        ("This means", " Mia is glad."),
        ("In other words", ", 3.5 is it."),
    ]


@pytest.mark.parametrize("text", ["", "<think>", "<think>\n", "\n\n", "...", "no end", "* * *\n\n- - -", "ends.\n\n\n\n  "])
def test_odd_texts_come_to_an_end(text: str) -> None:
    assert len(list(sentences(text))) <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sentences_of_a_trace_follow_each_other_to_its_end(family: str) -> None:
    for problem in problems(30, family=family):
        text = problem.trace.partition("</think>")[0].rstrip()
        spans = [(begin, end) for _, begin, end in sentences(text)]
        assert all(begin <= end for begin, end in spans)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
        assert spans[-1][1] == len(text)
        assert len(spans) > problem.steps
