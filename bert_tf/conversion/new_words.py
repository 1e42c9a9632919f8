"""Adds words to the vocabulary and to the embedding table of a checkpoint."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.conversion.checkpoint_contents import CheckpointContents

_UNUSED = re.compile(r"\[unused\d+\]")
# Matrix products are fastest if the number of entries is a multiple of this number.
_MULTIPLE = 8
# The weights with a row for each entry. The first one is also the output kernel of the
# masked LM.
_TABLES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")


def with_new_words(
    contents: CheckpointContents, new_words: Mapping[str, Sequence[int]]
) -> CheckpointContents:
    """Adds words to the vocabulary, the embeddings and the output bias of a checkpoint.

    The words replace the [unusedN] entries, in the order of the ids. If there are more
    words, they are appended, and [unusedN] entries follow until the size of the
    vocabulary and of the embedding table is a multiple of 8. In the word embeddings,
    and in the output bias of the masked LM if there is one, the row of a new word is
    the mean of the rows of its pieces: the tokens into which WordPiece split it before.
    The row of an appended [unusedN] entry is a copy of the row of [PAD], which a
    trained model never predicts. All other weights are unchanged. Adam's moments and
    the fact `eval` are left out.

    Args:
        contents: The checkpoint, with config and vocabulary.
        new_words: The ids of the pieces, by word. The words are not in the vocabulary.
    """
    tokens = list(contents.vocabulary or ())
    words = list(new_words)
    config = contents.require_config()
    pad = tokens.index("[PAD]")
    size = config.vocab_size

    # The words replace the [unusedN] entries.
    ids = [index for index, token in enumerate(tokens) if _UNUSED.fullmatch(token)][
        : len(words)
    ]
    for index, word in zip(ids, words, strict=False):
        tokens[index] = word

    # The other words are appended, and the size is rounded up.
    if appended := words[len(ids) :]:
        end = len(tokens) + len(appended)
        size = -(-max(size, end) // _MULTIPLE) * _MULTIPLE
        ids += range(len(tokens), end)
        tokens += [*appended, *_unused_names(contents.vocabulary or (), size - end)]

    # Append rows to each table. The rows of new words are the means of their pieces.
    arrays = dict(contents.arrays)
    for name in arrays.keys() & _TABLES:
        old = arrays[name]
        arrays[name] = np.concatenate(
            [old, np.repeat(old[pad : pad + 1], size - len(old), axis=0)]
        )
        for index, pieces in zip(ids, new_words.values(), strict=True):
            arrays[name][index] = old[list(pieces)].mean(axis=0)

    return dataclasses.replace(
        contents,
        arrays=arrays,
        config=dataclasses.replace(config, vocab_size=size),
        vocabulary=tokens,
        # The results of an evaluation were computed with the old vocabulary.
        facts={key: value for key, value in contents.facts.items() if key != "eval"},
        slots={},
    )


def _unused_names(tokens: Sequence[str], number: int) -> list[str]:
    """Returns `number` names of the form [unusedN] that are not among the tokens."""
    names = (f"[unused{n}]" for n in range(len(tokens) + number))
    known = set(tokens)
    return [*itertools.islice((name for name in names if name not in known), number)]
