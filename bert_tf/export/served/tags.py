"""The entities that tags of words mark, and their tags, in the graph.

The rules are those of `tasks.ner.schemes`. Shape letters: W words of all texts, E
entities of all texts, C tags of the model.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tasks.ner import schemes

_OUTSIDE, _BEGIN, _INSIDE, _END, _SINGLE = "OBIES"


class TagTable:
    """The prefix and the type of each tag of a model.

    Args:
        labels: The tags, in the order of the model's outputs.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        prefixes, types = zip(*map(schemes.split_tag, labels), strict=True)
        self._prefixes, self._types = tf.constant(prefixes), tf.constant(types)

    def words(self, label: Any, row: Any) -> "TaggedWords":
        """Returns words with their tags.

        Args:
            label: int32 [W], the index of the tag of each word, in the order of the
                texts.
            row: int64 [W], the text of each word.
        """
        prefix, kind = tf.gather(self._prefixes, label), tf.gather(self._types, label)
        same_row = tf.equal(row, _shifted(row, -1))
        last = tf.where(same_row, _shifted(prefix, _OUTSIDE), _OUTSIDE)
        same_type = same_row & tf.equal(kind, _shifted(kind, ""))
        is_more = _is_one_of(prefix, _INSIDE, _END) & _is_one_of(last, _BEGIN, _INSIDE)
        continues = is_more & same_type
        in_entity = tf.not_equal(prefix, _OUTSIDE)
        return TaggedWords(
            row=row,
            kind=kind,
            in_entity=in_entity,
            is_first=in_entity & ~continues,
            is_last=in_entity & ~tf.concat([continues[1:], [False]], 0)[: tf.size(row)],
            touches=same_type & tf.not_equal(last, _OUTSIDE),
        )


@dataclasses.dataclass(frozen=True)
class TaggedWords:
    """Words with their entities; all attributes have the shape [W].

    Attributes:
        row: int64, the text.
        kind: string, the type of the entity; "" outside of entities.
        in_entity: bool, whether the word is in an entity.
        is_first, is_last: bool, whether the word is the first or the last one of its
            entity.
        touches: bool, whether the word before it is in an entity of the same type.
    """

    row: Any
    kind: Any
    in_entity: Any
    is_first: Any
    is_last: Any
    touches: Any

    def tags(self, scheme: str) -> Any:
        """Returns the tags of the entities in a scheme, one of `schemes.SCHEMES`: string [W]."""
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
    """Returns the values of the words before each word.

    That of the first word is `first`.
    """
    first = tf.constant([first], values.dtype)
    return tf.concat([first, values], 0)[:-1]


def _is_one_of(prefix: Any, *values: str) -> Any:
    return tf.reduce_any(tf.equal(prefix[:, None], tf.constant(values)), axis=1)
