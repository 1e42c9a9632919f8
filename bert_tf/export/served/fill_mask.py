"""`ServedPretrainer`: predicts tokens for [MASK] and next sentences, and scores texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.served.base import ServedModel, TextFunctions
from bert_tf.export.served.tensor_operations import in_parts, rank_gaps
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import BertPretrainer
from bert_tf.modeling.inputs import POSITIONS
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.task import Outputs
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.step.objective import Tensors


class ServedPretrainer(ServedModel):
    """A tokenizer and a pretrained model in one graph.

    `serving_default` takes `text`, string [B], in which [MASK] stands for one token. M
    is the largest number of [MASK] in a text of the batch. The outputs are:

    * `tokens`, string [B, M, k]: the k = `top_k` most probable tokens, best first; ""
      for padding. A token that continues a word starts with ##.
    * `probabilities`, float32 [B, M, k]; 0 for padding.
    * `num_masks`, int32 [B]: the number of [MASK] of each text that were not truncated.

    `next_sentence` takes `text_a` and `text_b`, string [B] each, and returns `is_next`,
    float32 [B]: the probability that the second text follows the first one. A model
    without a next-sentence head does not have it.

    `score` takes `text`, string [B], and returns `score`, float32 [B], the pseudo
    log-likelihood: the sum of the log probabilities of the tokens, each predicted from
    all others; and `num_tokens`, int32 [B], their number. [MASK], [PAD], [CLS] and
    [SEP] in the text are not predicted, an unknown word counts as [UNK], and tokens
    after the first `max_seq_length` do not count.

    `ids` and `ids_lengths` return `masked_lm_logits`, float32 [B, S, vocabulary], and,
    with a next-sentence head, `next_sentence_logits`, float32 [B, 2].

    Source: Salazar et al., Masked Language Model Scoring, arXiv 1910.14659.
    """

    takes_masks = True
    text_names = ("text",)
    pipeline_tag = "fill-mask"
    head = ("cls/predictions/output_bias",)
    own_settings = ("top_k",)

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        super().__init__(
            checkpoint,
            settings,
            BertPretrainer,
            next_sentence="cls/seq_relationship/output_weights" in checkpoint.weights,
        )
        vocabulary = self.tokenizer.vocabulary
        casing = self.tokenizer.do_lower_case
        self.tokenizer = BertTokenizer(vocabulary, casing, special_tokens_in_text=True)
        self._tokens = tf.constant(vocabulary, tf.string)
        self._top_k = min(settings.top_k, self.tokenizer.vocab_size)

    @property
    def file_outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the outputs of a TFLite or ONNX file."""
        names = ("masked_lm_logits", "next_sentence_logits")
        return names if self.model.next_sentence else names[:1]

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the most probable tokens for each [MASK] of texts, string [B]."""
        inputs = self.encode(*texts)
        is_mask = inputs["input_ids"] == self.tokenizer.mask_id
        mask_positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(tf.where(is_mask)[:, 1], tf.int32),
            tf.where(is_mask)[:, 0],
            nrows=tf.shape(is_mask, tf.int64)[0],
        )
        positions = mask_positions.to_tensor()  # [B, M], padded with position 0
        count = tf.cast(mask_positions.row_lengths(), tf.int32)
        logits = self.outputs({**inputs, POSITIONS: positions})["masked_lm_logits"]
        # The table of embeddings may have more rows than the vocabulary has tokens.
        probabilities = tf.nn.softmax(logits)[..., : self.tokenizer.vocab_size]
        best, ids = tf.math.top_k(probabilities, self._top_k)
        exists = tf.sequence_mask(count, tf.shape(positions)[1])[..., None]
        return {
            "tokens": tf.where(exists, tf.gather(self._tokens, ids), ""),
            "probabilities": tf.where(exists, best, 0.0),
            "num_masks": count,
        }

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gap of the rank of each token in its list; see `ServedModel.gaps`."""
        if "tokens" not in outputs:  # another signature
            return {}
        probabilities = outputs["probabilities"]
        gaps = rank_gaps(probabilities)
        # The last token of a list may tie with one that is not in it, and two tokens
        # with equal probabilities have at most one half each.
        gaps[..., -1] = np.minimum(gaps[..., -1], probabilities[..., -1] - 0.5)
        return {"tokens": gaps}

    def from_other_texts(self) -> TextFunctions:
        """Returns the functions of the signatures `score` and `next_sentence`, and their inputs."""
        functions: TextFunctions = {"score": (self._score, ("text",))}
        if self.model.next_sentence:
            functions["next_sentence"] = (self._next_sentence, ("text_a", "text_b"))
        return functions

    def _score(self, text: Any) -> Tensors:
        inputs = self.encode(text)
        ids = inputs["input_ids"]
        tokens = self.tokenizer
        special = tf.constant(
            [tokens.pad_id, tokens.cls_id, tokens.sep_id, tokens.mask_id]
        )
        is_scored = tf.reduce_all(ids[..., None] != special, axis=-1)
        indices = tf.cast(
            tf.where(is_scored), tf.int32
        )  # [N, 2]: text and position of each token
        row, position = indices[:, 0], indices[:, 1]

        def of_part(rows: Tensors) -> tuple[Any]:
            own = {
                name: tf.gather(value, rows["row"]) for name, value in inputs.items()
            }
            is_target = tf.range(tf.shape(ids)[1])[None] == rows["position"]
            masked = tf.where(is_target, self.tokenizer.mask_id, own["input_ids"])
            target = tf.gather(own["input_ids"], rows["position"][:, 0], batch_dims=1)
            logits = self.outputs(
                {**own, "input_ids": masked, POSITIONS: rows["position"]}
            )
            log_probabilities = tf.nn.log_softmax(logits["masked_lm_logits"][:, 0])
            return (tf.gather(log_probabilities, target, batch_dims=1),)

        (token_scores,) = in_parts(
            of_part, {"row": row, "position": position[:, None]}, [1]
        )
        count = tf.shape(ids)[0]
        return {
            "score": tf.math.unsorted_segment_sum(token_scores, row, count),
            "num_tokens": tf.math.unsorted_segment_sum(tf.ones_like(row), row, count),
        }

    def _next_sentence(self, text_a: Any, text_b: Any) -> Tensors:
        inputs = self.encode(text_a, text_b)
        no_position = tf.zeros([tf.shape(inputs["input_ids"])[0], 0], tf.int32)
        logits = self.outputs({**inputs, POSITIONS: no_position})[
            "next_sentence_logits"
        ]
        return {"is_next": tf.nn.softmax(logits)[:, 0]}
