"""How far a training is: on validation problems, are the results right that the model is to write behind an equals sign?"""

from __future__ import annotations

from typing import Any

import torch

from relay_integrations.tiny.tasks import FAMILIES, problems
from relay_integrations.tiny.training.mix import Document, encode

_PROBLEMS = 40


class Watch:
    """Reads right responses and looks at what the model would have written; nothing is generated.

    Args:
        tokenizer: With its chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._documents = {
            family: [encode(tokenizer, problem) for problem in problems(_PROBLEMS, split="validation", family=family)]
            for family in FAMILIES
        }
        self._equals: int = tokenizer("1=", add_special_tokens=False)["input_ids"][-1]
        self._digits = {i for i in range(len(tokenizer)) if tokenizer.decode([i]).isdigit()}

    def __call__(self, model: Any) -> dict[str, Any]:
        """`loss`, the mean by family, and `sums`, the share of results behind "=" of which every digit is right."""
        model.set_attn_implementation("sdpa")
        losses, sums = {}, {}
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for family, documents in self._documents.items():
                found = [self._look(model, document) for document in documents]
                losses[family] = round(sum(loss for loss, _ in found) / len(found), 4)
                right = [ok for _, rights in found for ok in rights]
                if right:
                    sums[family] = round(sum(right) / len(right), 3)
        return {"validation_loss": losses, "sums": sums}

    def _look(self, model: Any, document: Document) -> tuple[float, list[bool]]:
        ids = torch.tensor(document.ids)
        learned = torch.tensor(document.learned)[1:]
        scores = model(ids[None]).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(scores[learned], ids[1:][learned]).item()
        said = scores.argmax(-1).tolist()
        rights: list[bool] = []
        at = 1
        while at < len(document.ids):
            if document.ids[at - 1] == self._equals and document.learned[at]:
                right = True
                while at < len(document.ids) and document.ids[at] in self._digits:
                    right = right and said[at - 1] == document.ids[at]
                    at += 1
                rights.append(right)
            at += 1
        return loss, rights
