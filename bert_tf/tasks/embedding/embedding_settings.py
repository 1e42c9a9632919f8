"""`EmbeddingSettings`: the loss, the pooling and the prompts of trained vectors.

Imports no TensorFlow, so that programs start quickly.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_choices, store_plain_values

CONTRASTIVE, COSINE, COSENT = LOSSES = ("contrastive", "cosine", "cosent")
# The names of the prompts, as sentence-transformers uses them for the two sides.
PROMPT_NAMES = ("query", "document")


@documented
@dataclasses.dataclass(frozen=True)
class EmbeddingSettings:
    """The settings of an `EmbeddingTask`.

    Raises:
        InputError: A value is not known or is out of range.
    """

    loss: str | None = option(
        None,
        "contrastive: the cross entropy of the text that belongs to the first text, "
        "among all texts of the batch. cosine: the squared difference of cosine and "
        "score. cosent: the order of all cosines of the batch is that of the scores. "
        "Default: cosent with scores, else contrastive.",
        choices=LOSSES,
    )
    scale: float = option(
        20.0, "Factor of the cosines in the losses contrastive and cosent, above 0."
    )
    both_directions: bool = option(
        False,
        "Loss contrastive: the mean with the cross entropy of the first text that "
        "belongs to the second one, among all first texts of the batch.",
    )
    pooling: str | None = option(
        None,
        "The vector of a text: the mean of the vectors of its tokens, or that of its "
        "first token, [CLS]. Default: that of the initial model, or mean.",
        choices=("mean", "first"),
    )
    dimensions: tuple[int, ...] = option(
        (),
        "Sizes to which vectors can be cut after the training, such as 384,128,64: "
        "the loss is the mean over these sizes and the full size.",
    )
    prompt_a: str | None = option(
        None,
        'Text before each first text, such as "query: ". Default: the prompt query of '
        "the initial model, if it has one.",
    )
    prompt_b: str | None = option(
        None,
        "Text before each other text. Default: the prompt document or passage of the "
        "initial model, if it has one.",
    )
    max_score: float = option(
        1.0, "The scores of the data are divided by this number, such as 5 for STS-B."
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_choices(self)
        for name in ("scale", "max_score"):
            if not 0 < getattr(self, name) <= 1e6:
                raise InputError(
                    f"{name} must be above 0 and at most 1,000,000. Received: "
                    f"{getattr(self, name)}."
                )
        sizes = [str(size).strip() for size in self.dimensions]
        if not all(text.isdecimal() and int(text) for text in sizes):
            raise InputError(
                "dimensions must be sizes of vectors, from 1, separated by commas, such "
                f"as 384,128,64. Received: {','.join(sizes)!r}."
            )
        object.__setattr__(self, "dimensions", tuple(map(int, sizes)))

    def loss_of(self, has_scores: bool) -> str:
        """Returns the loss; raises InputError if it does not fit the data."""
        loss = self.loss or (COSENT if has_scores else CONTRASTIVE)
        if has_scores != (loss in (COSINE, COSENT)):
            given = "a score_column" if has_scores else "no score_column"
            needed = "pairs without scores" if has_scores else "scores"
            raise InputError(
                f"loss={loss} needs {needed}, and there is {given}. Give another loss "
                "or change score_column."
            )
        return loss

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts by the names of sentence-transformers; {} without prompts."""
        texts = (self.prompt_a or "", self.prompt_b or "")
        return dict(zip(PROMPT_NAMES, texts, strict=True)) if any(texts) else {}

    def with_defaults(self, embedding: Mapping[str, Any]) -> "EmbeddingSettings":
        """Returns the settings with pooling and prompts of a model, if none are given.

        Args:
            embedding: The facts `embedding` of the model; {} if it has none.

        Raises:
            InputError: The pooling of the model is not known here.
        """
        if self.pooling is None and "problem" in embedding:
            raise InputError(
                f"{embedding['problem']}. Give pooling=mean or pooling=first."
            )
        prompts = embedding.get("prompts", {})
        document = prompts.get("document", prompts.get("passage", ""))
        values = {
            "pooling": embedding.get("pooling", "mean"),
            "prompt_a": prompts.get("query", ""),
            "prompt_b": document,
        }
        given = {name: getattr(self, name) for name in values}
        return dataclasses.replace(
            self,
            **{
                name: value if given[name] is None else given[name]
                for name, value in values.items()
            },
        )

    def facts(self, max_seq_length: int | None = None) -> dict[str, Any]:
        """Returns the settings that are saved as `embedding`, for exports and conversions."""
        optional = {
            "prompts": self.prompts,
            "dimensions": list(self.dimensions),
            "max_seq_length": max_seq_length,
        }
        return {
            "pooling": self.pooling,
            "normalize": True,
            **{name: value for name, value in optional.items() if value},
        }
