"""The table of weight names in google-research/bert, Hugging Face and the Model Garden.

All readers and writers that rename weights use this table.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class Row:
    """The names of one weight.

    In a name, `{i}` stands for the index of the Transformer block.

    Attributes:
        google: Name in google-research/bert, which bert-tf uses too.
        model_garden: Last part of the variable's full name in tf-models-official, or ""
            if the Model Garden encoders do not have the weight.
        transposed: Whether the weight is a kernel. Kernels have the shape [in, out] in
            google-research/bert but [out, in] in Hugging Face.
        heads: The axis that the Model Garden splits into [heads, head size]: "in" or
            "out" for attention kernels, "out" for the biases of query, key and value,
            and "" for all other weights.
    """

    google: str
    hugging_face: str
    model_garden: str = ""
    transposed: bool = False
    heads: str = ""


def _dense(
    google: str, hugging_face: str, model_garden: str, heads: str = ""
) -> list[Row]:
    return [
        Row(
            f"{google}/kernel",
            f"{hugging_face}.weight",
            model_garden=f"{model_garden}/kernel",
            transposed=True,
            heads=heads,
        ),
        Row(
            f"{google}/bias",
            f"{hugging_face}.bias",
            f"{model_garden}/bias",
            heads="out" if heads == "out" else "",
        ),
    ]


def _norm(google: str, hugging_face: str, model_garden: str) -> list[Row]:
    return [
        Row(f"{google}/beta", f"{hugging_face}.bias", f"{model_garden}/beta"),
        Row(f"{google}/gamma", f"{hugging_face}.weight", f"{model_garden}/gamma"),
    ]


_G, _H, _M = "bert/encoder/layer_{i}", "bert.encoder.layer.{i}", "transformer/layer_{i}"
_ENCODER = (
    Row(
        "bert/embeddings/word_embeddings",
        "bert.embeddings.word_embeddings.weight",
        "word_embeddings/embeddings",
    ),
    Row(
        "bert/embeddings/token_type_embeddings",
        "bert.embeddings.token_type_embeddings.weight",
        "type_embeddings/embeddings",
    ),
    Row(
        "bert/embeddings/position_embeddings",
        "bert.embeddings.position_embeddings.weight",
        "position_embedding/embeddings",
    ),
    *_norm(
        "bert/embeddings/LayerNorm",
        "bert.embeddings.LayerNorm",
        "embeddings/layer_norm",
    ),
    *(
        row
        for part in ("query", "key", "value")
        for row in _dense(
            f"{_G}/attention/self/{part}",
            f"{_H}.attention.self.{part}",
            f"{_M}/self_attention/{part}",
            heads="out",
        )
    ),
    *_dense(
        f"{_G}/attention/output/dense",
        f"{_H}.attention.output.dense",
        f"{_M}/self_attention/attention_output",
        heads="in",
    ),
    *_norm(
        f"{_G}/attention/output/LayerNorm",
        f"{_H}.attention.output.LayerNorm",
        f"{_M}/self_attention_layer_norm",
    ),
    *_dense(
        f"{_G}/intermediate/dense", f"{_H}.intermediate.dense", f"{_M}/intermediate"
    ),
    *_dense(f"{_G}/output/dense", f"{_H}.output.dense", f"{_M}/output"),
    *_norm(
        f"{_G}/output/LayerNorm", f"{_H}.output.LayerNorm", f"{_M}/output_layer_norm"
    ),
    *_dense("bert/pooler/dense", "bert.pooler.dense", "pooler_transform"),
)


def _head(google: str, hugging_face: str) -> list[Row]:
    return [
        Row(f"{google}output_weights", f"{hugging_face}.weight"),
        Row(f"{google}output_bias", f"{hugging_face}.bias"),
    ]


_PRETRAINING = (
    *_dense(
        "cls/predictions/transform/dense",
        "cls.predictions.transform.dense",
        "cls/predictions/transform/dense",
    ),
    *_norm(
        "cls/predictions/transform/LayerNorm",
        "cls.predictions.transform.LayerNorm",
        "cls/predictions/transform/LayerNorm",
    ),
    Row(
        "cls/predictions/output_bias",
        "cls.predictions.bias",
        "cls/predictions/output_bias/bias",
    ),
    *_head("cls/seq_relationship/", "cls.seq_relationship"),
)

# Three heads have the name `classifier` in Hugging Face. The class name under
# `architectures` in `config.json` tells which head a checkpoint has. This dict maps the
# class name to the prefix of the head's names in google-research/bert and bert-tf
# (`Row.google`).
CLASSIFIER_HEADS = {
    "BertForSequenceClassification": "",
    "BertForTokenClassification": "cls/tagger/",
    "BertForMultipleChoice": "cls/choice/",
}
# The weight with one row for each label, by the name of the model class in bert-tf.
HEADS_WITH_LABELS = {
    "BertClassifier": "output_weights",
    "BertTagger": "cls/tagger/output_weights",
}
# The weight of the output layer, by the name of the model class that may have further
# layers in the head.
OUTPUT_LAYERS = {**HEADS_WITH_LABELS, "BertSpanPredictor": "cls/squad/output_weights"}


def classifier_rows(architecture: str) -> list[Row]:
    """Returns the rows of the head that Hugging Face names `classifier`.

    A class that is not in `CLASSIFIER_HEADS` has the rows of
    `BertForSequenceClassification`.
    """
    return _head(CLASSIFIER_HEADS.get(architecture, ""), "classifier")


def span_rows(hugging_face: str = "qa_outputs") -> list[Row]:
    """Returns the rows of the span head; `hugging_face` is the name of this head in checkpoints."""
    return _head("cls/squad/", hugging_face)


def rows(architecture: str = "BertForSequenceClassification") -> tuple[Row, ...]:
    """Returns all rows, in the order in which google-research/bert creates variables.

    `architecture`, a class of Hugging Face, determines the head named `classifier`.
    """
    return (*_ENCODER, *_PRETRAINING, *classifier_rows(architecture), *span_rows())


def hugging_face_class(arrays: Mapping[str, np.ndarray], causal: bool) -> str:
    """Returns the name of the transformers class for a model with the given weights."""
    masked_lm = "cls/predictions/output_bias" in arrays
    if "cls/seq_relationship/output_weights" in arrays:
        return "BertForPreTraining" if masked_lm else "BertForNextSentencePrediction"
    if masked_lm:
        return "BertLMHeadModel" if causal else "BertForMaskedLM"

    heads = {
        "cls/squad/output_weights": "BertForQuestionAnswering",
        **{f"{head}output_weights": name for name, head in CLASSIFIER_HEADS.items()},
    }
    return next(
        (name for weight, name in heads.items() if weight in arrays), "BertModel"
    )


def matcher(
    names: Mapping[str, Row], with_scope: bool = False
) -> Callable[[str], Row | None]:
    """Returns a function that finds the row of a weight from the weight's name.

    The function returns None if no row has the name. Otherwise, it returns the row; in
    its names in google-research/bert and Hugging Face, the index of the Transformer
    block has replaced `{i}`.

    Args:
        names: The rows by the names of weights, which may contain `{i}`.
        with_scope: Whether a name may have a prefix that ends with "/" (a scope).
    """
    scope = "(?:.*/)?" if with_scope else ""
    patterns = [
        (re.compile(scope + re.escape(name).replace(r"\{i\}", r"(?P<i>\d+)")), row)
        for name, row in names.items()
        if name
    ]

    def match(name: str) -> Row | None:
        for pattern, row in patterns:
            if regex_match := pattern.fullmatch(name):
                block = regex_match.groupdict().get("i", "")
                return dataclasses.replace(
                    row,
                    google=row.google.replace("{i}", block),
                    hugging_face=row.hugging_face.replace("{i}", block),
                )
        return None

    return match


def merge_heads(row: Row, array: np.ndarray) -> np.ndarray:
    """Merges the axes [heads, head size] of an array into one, as in google-research/bert."""
    if row.heads == "in":
        return array.reshape(-1, array.shape[-1])
    if row.heads == "out":
        return array.reshape(*array.shape[:-2], -1) if array.ndim > 1 else array
    return array
