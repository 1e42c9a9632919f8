"""`ServedTagger`: the tags of words, and the named entities that they mark.

`TagTable` and `TaggedWords` compute entities in the graph, by the rules of
`tasks.ner.schemes`. Their shape letters: W words of all texts, E entities of all texts,
C tags of the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.conversion.head_choice import check_labels
from bert_tf.errors import check_choice
from bert_tf.export.served import windows
from bert_tf.export.served.base import LabelledExamples, ServedModel, TextFunctions
from bert_tf.export.served.tensor_operations import substrings
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import BertTagger
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.ner import schemes
from bert_tf.tasks.ner.ner_encoding import SPECIAL_TOKENS
from bert_tf.tasks.ner.ner_metrics import EntityMetrics
from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.splits import FileSource, RowCounts, Split
from bert_tf.tasks.task import DEFAULT_LENGTH, Outputs
from bert_tf.tasks.windows import is_word_start, stride_of
from bert_tf.training.step.objective import Tensors

_WORDS = "words"
_OUTSIDE, _BEGIN, _INSIDE, _END, _SINGLE = "OBIES"  # the prefixes of tags
# Invisible characters that the tokenizer removes, at the end of a word; combining marks
# stay.
_INVISIBLE_END = r"[\p{Cc}\p{Cf}\x{FFFD}]+$"


class ServedTagger(ServedModel):
    """A tokenizer and a model of tags in one graph.

    `serving_default` takes `text`, string [B], of any length. The tokenizer splits it
    into words at white space, at punctuation and around Chinese characters. W is the
    largest number of words of a text in the batch, and E the largest number of
    entities. The outputs, padded with "" and 0, are:

    * `words`, `tags`, string [B, W], and `probabilities`, float32 [B, W], of the
      predicted tags. Predicted tags that are not permitted in the scheme of the model
      are corrected, so that `tags` marks complete entities.
    * `start`, `end`, int32 [B, W]: a word is `text[start:end]`, in bytes.
    * `entities`, `entity_types`, string [B, E]; `entity_start`, `entity_end`, int32 [B,
      E], in bytes.

    The signature `words` takes `words`, string [B, W]: texts that have been split into
    words. An empty text, at any position, is no word. It returns `tags` and
    `probabilities`, [B, W]. `ids` and `ids_lengths` return `logits`, float32 [B, S,
    labels].

    Texts that are too long for the model are split into windows in the graph, and the
    tag of each word is predicted in the window that gives the word most context. Other
    texts of a document are not used as context.
    """

    list_names = (_WORDS,)
    labelled_signature = _WORDS
    text_names = ("text",)
    file_outputs = ("logits",)
    pipeline_tag = "token-classification"
    head = ("cls/tagger/output_weights", "cls/tagger/output_bias")

    @classmethod
    def default_facts(cls, task: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the defaults of facts; see `ServedModel.default_facts`."""
        scheme = stated.get("scheme")
        labels = stated.get("labels")
        if scheme is None and labels:
            scheme = schemes.scheme_of_labels(labels)
        return {"labels": None, "scheme": scheme, "max_seq_length": DEFAULT_LENGTH}

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        facts = checkpoint.facts
        num_labels = len(facts["labels"])
        super().__init__(checkpoint, settings, BertTagger, num_labels=num_labels)
        labels = check_labels(self.model, facts["labels"])
        check_choice(schemes.SCHEMES, "scheme", facts["scheme"])
        self._task = NerTask(self.tokenizer, tuple(labels))
        self._table = TagTable(labels)
        self._scheme = facts["scheme"]
        self._is_word_start = tf.constant(is_word_start(self.tokenizer.vocabulary))

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns words, tags and entities of texts, string [B]."""
        (text,) = texts

        # The pieces of each word, and its bytes in the text.
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(text)
        starts_word = tf.gather(self._is_word_start, ids.values)
        first = tf.where(starts_word)[:, 0]  # the piece with which each word starts
        after = tf.concat([first[1:], tf.shape(ids.values, tf.int64)], 0)[
            : tf.size(first)
        ]
        begin = tf.cast(tf.gather(starts.values, first), tf.int32)
        end = tf.cast(tf.gather(ends.values, after - 1), tf.int32)
        row = tf.gather(ids.value_rowids(), first)
        visible = tf.strings.regex_replace(
            substrings(text, row, begin, end), _INVISIBLE_END, "", replace_global=False
        )
        end = begin + tf.strings.length(visible)

        label, probability = self._labels(ids, starts_word)
        words = self._table.words(label, row)
        count = tf.shape(text, tf.int64)[0]
        entity_row, kind = (
            tf.boolean_mask(values, words.is_first) for values in (row, words.kind)
        )
        entity_begin = tf.boolean_mask(begin, words.is_first)
        entity_end = tf.boolean_mask(end, words.is_last)

        # Both have the words or entities of all texts in one list. `_dense` divides it
        # into rows.
        of_words = {
            "words": visible,
            "tags": words.tags(self._scheme),
            "probabilities": probability,
            "start": begin,
            "end": end,
        }
        of_entities = {
            "entities": substrings(text, entity_row, entity_begin, entity_end),
            "entity_types": kind,
            "entity_start": entity_begin,
            "entity_end": entity_end,
        }
        return _dense(of_words, row, count) | _dense(of_entities, entity_row, count)

    def from_other_texts(self) -> TextFunctions:
        """Returns the function of the signature `words`, and the name of its input."""
        return {_WORDS: (self._from_words, (_WORDS,))}

    def _from_words(self, words: Any) -> Tensors:
        """Returns the tags of words, string [B, W], and their probabilities."""
        indices = tf.where(
            tf.not_equal(words, "")
        )  # int64 [N, 2]: row and index of each word
        pieces = self.tokenizer.tokenize(tf.gather_nd(words, indices))

        # A word whose characters the tokenizer all removes becomes [UNK].
        is_empty = tf.cast(tf.equal(pieces.row_lengths(), 0), tf.int64)
        unknown = tf.fill(tf.reduce_sum(is_empty, keepdims=True), self.tokenizer.unk_id)
        pieces = tf.concat(
            [pieces, tf.RaggedTensor.from_row_lengths(unknown, is_empty)], axis=1
        )

        # Join the pieces of the words of a row.
        of_rows = tf.math.unsorted_segment_sum(
            pieces.row_lengths(), indices[:, 0], tf.shape(words, tf.int64)[0]
        )
        ids = tf.RaggedTensor.from_row_lengths(pieces.values, of_rows)
        starts_word = tf.equal(tf.ragged.range(pieces.row_lengths()).values, 0)
        label, probability = self._labels(ids, starts_word)
        tags = self._table.words(label, indices[:, 0]).tags(self._scheme)

        shape = tf.shape(words, tf.int64)
        return {
            "tags": tf.tensor_scatter_nd_update(tf.fill(shape, ""), indices, tags),
            "probabilities": tf.scatter_nd(indices, probability, shape),
        }

    def _labels(self, ids: Any, starts_word: Any) -> tuple[Any, Any]:
        """Returns the index and the probability of the tag of each of N words, [N] each.

        `ids` are the pieces of the words of B texts, ragged int32 [B, None].
        `starts_word` says for each piece whether it is the first one of a word.
        """
        room = self.max_seq_length - SPECIAL_TOKENS
        rows = tf.fill(tf.shape(ids.row_splits)[:1] - 1, 1)
        parts = windows.split(ids, room * rows, stride_of(room), rows)
        inputs = windows.sequences(parts, ids, None, self.tokenizer)
        (logits,) = self.outputs_in_parts(inputs, "logits", rank=3)  # [R, S, C]

        # The first piece of a word is predicted, in the window that gives it most
        # context.
        position = tf.range(tf.shape(inputs["input_ids"])[1])[None]
        in_text = (position >= 1) & (position <= parts.length[:, None])
        index = windows.first_value(ids, parts.row) + parts.first_token
        index = tf.where(in_text, index[:, None] + position - 1, 0)
        starts_word = tf.gather(tf.concat([starts_word, [False]], 0), index)
        owned = (
            in_text
            & starts_word
            & windows.has_max_context(
                parts, tf.broadcast_to(position, tf.shape(in_text))
            )
        )

        # The windows of a text, and the words of a window, are in the order of the
        # text.
        probabilities = tf.nn.softmax(tf.boolean_mask(logits, owned))
        label = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return label, tf.reduce_max(probabilities, axis=-1)

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gap of the most uncertain word of each text; see `ServedModel.gaps`.

        The gap is the probability of its tag minus 0.5, because each of two equally
        probable tags has at most 0.5. One such word can change all entities of the text,
        and the tags after it.
        """
        probabilities = outputs["probabilities"]
        of_words = np.where(probabilities > 0, probabilities - 0.5, np.inf)
        closest = of_words.min(axis=1, keepdims=True, initial=np.inf)
        fixed = (_WORDS, "start", "end")
        return {name: closest for name in outputs if name not in fixed}

    def row_for(self, signature: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the words of an example for the signature `words`; joins them for others."""
        return row if signature == _WORDS else (" ".join(row[0]),)

    def read_examples(self, path: str) -> LabelledExamples:
        """Yields words and tags of each sentence in a file that `NerTask` reads.

        In a file with columns, the words are in the first one, and the tags in the last
        one. Sentences without tags are skipped.
        """
        split = Split("test", FileSource(path))
        for example in self._task.examples(split, RowCounts()):
            if example.tags is not None:
                yield (list(example.words),), (example.words, example.tags)

    def metric(self, outputs: Outputs, correct: Sequence[Any]) -> tuple[str, float]:
        """Returns the F1 of entities, in percent."""
        metrics = EntityMetrics()
        for row, (words, tags) in zip(outputs["tags"], correct, strict=True):
            predicted = [tag.decode() for tag in row[: len(words)]]
            metrics.add(words, tags, predicted)
        return "f1", metrics.overall().f1


def _dense(columns: Tensors, row: Any, count: Any) -> dict[str, Any]:
    """Puts each value into the row `row`; returns, by name, `count` rows padded with "" or 0."""
    return {
        name: tf.RaggedTensor.from_value_rowids(values, row, nrows=count).to_tensor()
        for name, values in columns.items()
    }


class TagTable:
    """The prefix and the type of each tag of a model, in the order of the model's outputs."""

    def __init__(self, labels: Sequence[str]) -> None:
        prefixes, types = zip(*map(schemes.split_tag, labels), strict=True)
        self._prefixes = tf.constant(prefixes)
        self._types = tf.constant(types)

    def words(self, label: Any, row: Any) -> "TaggedWords":
        """Returns the words of all texts, with the entities that their tags mark.

        `label` is the index of the tag of each word, int32 [W], and `row` the index of
        its text, int64 [W].
        """
        prefix, kind = tf.gather(self._prefixes, label), tf.gather(self._types, label)
        same_row = tf.equal(row, _shifted(row, -1))
        last = tf.where(same_row, _shifted(prefix, _OUTSIDE), _OUTSIDE)
        same_type = same_row & tf.equal(kind, _shifted(kind, ""))
        is_more = _is_one_of(prefix, _INSIDE, _END) & _is_one_of(last, _BEGIN, _INSIDE)
        continues = is_more & same_type
        in_entity = tf.not_equal(prefix, _OUTSIDE)
        return TaggedWords(
            kind=kind,
            in_entity=in_entity,
            is_first=in_entity & ~continues,
            is_last=in_entity & ~tf.concat([continues[1:], [False]], 0)[: tf.size(row)],
            touches=same_type & tf.not_equal(last, _OUTSIDE),
        )


class TaggedWords(NamedTuple):
    """Words with their entities; all attributes have the shape [W].

    Attributes:
        kind: string, the type of the entity; "" outside of entities.
        in_entity: bool, whether the word is in an entity.
        is_first, is_last: bool, whether the word is the first or the last one of its
            entity.
        touches: bool, whether the word before it, in the same text, is in an entity of
            the same type.
    """

    kind: Any
    in_entity: Any
    is_first: Any
    is_last: Any
    touches: Any

    def tags(self, scheme: str) -> Any:
        """Returns the tags in a scheme, one of `schemes.SCHEMES`: string [W]."""
        if scheme == "iob1":
            prefix = tf.where(self.is_first & self.touches, _BEGIN, _INSIDE)
        else:
            prefix = tf.where(self.is_first, _BEGIN, _INSIDE)
        if scheme == "iobes":
            prefix = tf.where(self.is_last, _END, prefix)
            prefix = tf.where(self.is_first & self.is_last, _SINGLE, prefix)
        tags = tf.strings.join([prefix, self.kind], "-")
        return tf.where(self.in_entity, tags, schemes.OUTSIDE)


def _shifted(values: Any, first: Any) -> Any:
    """Returns, for each word, the value of the word before it; `first` for the first word."""
    first = tf.constant([first], values.dtype)
    return tf.concat([first, values], 0)[:-1]


def _is_one_of(prefix: Any, *values: str) -> Any:
    return tf.reduce_any(tf.equal(prefix[:, None], tf.constant(values)), axis=1)
