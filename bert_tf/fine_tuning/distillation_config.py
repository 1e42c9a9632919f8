"""The settings of distillation.

Imports only `errors`, so that programs show defaults quickly.
"""

import dataclasses

from bert_tf.errors import InputError, check_between


@dataclasses.dataclass(frozen=True)
class DistillationConfig:
    """The settings of a training with a teacher: a large model from which a small one learns.

    Attributes:
        teacher: The fine-tuned model whose outputs the model learns too: the folder of
            a run of the same task with the same labels, and with the vocabulary of the
            model. Its outputs for the training examples are computed once.
        distillation_temperature: The logits of teacher and model are divided by this
            number, from 0.01 to 1000, so that small probabilities count more. Without
            effect in regression.
        distillation_weight: Share of the teacher in the training loss, from 0 to 1. 1:
            the labels have no effect.
        unlabelled_file: Further training examples, in the format of the train file,
            whose labels or answers, if there are any, are ignored: the model learns
            only the outputs of the teacher for them. An epoch contains the examples of
            both files.
        init_layers: The Transformer blocks of the teacher, counted from 0, from which
            the model is built, such as 0,2,4. It also has the embeddings, the pooler
            and the head of the teacher, and needs no initial checkpoint or config.
        feature_cache_dir: Local folder of the outputs of `teacher` and, with a frozen
            encoder, of its hidden states, which are computed once. Runs with the same
            data, teacher and encoder can share it. Default: features/ in the folder of
            the run.

    Raises:
        InputError: A value is out of range.

    Source: Hinton et al. 2015 (arXiv:1503.02531), who find values of 1 to 20 for the
    temperature,
    lower ones for small models, and a low weight of the labels useful. Sanh et al. 2019
    (arXiv:1910.01108), section 3, for the choice of layers.
    """

    teacher: str
    distillation_temperature: float = 2.0
    distillation_weight: float = 0.9
    unlabelled_file: str | None = None
    init_layers: tuple[int, ...] | None = None
    feature_cache_dir: str | None = None

    def __post_init__(self) -> None:
        check_between(0.01, 1000, self, "distillation_temperature")
        check_between(0, 1, self, "distillation_weight")
        if self.init_layers is not None and not self.layers:
            raise InputError(
                "init_layers must be numbers of blocks, from 0, separated by commas, "
                f"such as 0,2,4. Received: {','.join(map(str, self.init_layers))!r}."
            )

    @property
    def layers(self) -> tuple[int, ...]:
        """`init_layers` as integers; () if they are not given, or not numbers."""
        texts = [str(each).strip() for each in self.init_layers or ()]
        return tuple(map(int, texts)) if all(each.isdecimal() for each in texts) else ()
