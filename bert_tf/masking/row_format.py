"""Rows (unmasked sequences), and what pairing and masking need of a vocabulary."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import features


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The properties of a vocabulary that pairing and masking need.

    Attributes:
        size: Number of entries, V.
        cls_id: Id of [CLS].
        sep_id: Id of [SEP].
        mask_id: Id of [MASK].
        unk_id: Id of [UNK].
        continues: bool [V], True for entries that start with "##".
        sha256: Hexadecimal hash of the vocabulary, as the tokenizer computes it.
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    continues: np.ndarray
    sha256: str

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """Returns the properties of the vocabulary of a `BertTokenizer`."""
        return cls(
            size=tokenizer.vocab_size,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            mask_id=tokenizer.mask_id,
            unk_id=tokenizer.unk_id,
            continues=np.array(
                [token.startswith("##") for token in tokenizer.vocabulary]
            ),
            sha256=tokenizer.vocabulary_sha256,
        )


def row_dtype(max_seq_length: int, vocab_size: int) -> np.dtype:
    """Returns the dtype of a row.

    Its field `ids` has shape [S] and is padded with 0.
    """
    token = np.dtype(features.ids_dtype(vocab_size))
    return np.dtype(
        [
            (
                "key",
                np.uint64,
            ),  # determines the random draws and the place in the shuffled order
            ("trimmed", np.int32),  # number of tokens that truncation removed
            ("length_a", np.uint16),  # number of tokens in A
            ("length_b", np.uint16),  # number of tokens in B; 0 if there is no B
            ("random_next", np.uint16),  # next-sentence label: 1 if B does not follow A
            (
                "ids",
                token,
                (max_seq_length,),
            ),  # [CLS] A [SEP] B [SEP], or [CLS] A [SEP]
        ]
    )


def to_columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the columns of `features.unmasked` for B rows."""
    return {
        f"ids_{rows['ids'].dtype}": rows["ids"],
        "lengths": np.stack([rows["length_a"], rows["length_b"]], axis=1),
        "next_sentence_labels": rows["random_next"][:, None],
        "row_key": rows["key"].view(np.int64)[:, None],
    }


def from_columns(columns: Mapping[str, np.ndarray], vocab_size: int) -> np.ndarray:
    """Returns the rows whose columns are those of `features.unmasked`, with any integer dtype."""
    (name,) = (name for name in columns if name.startswith("ids_"))
    ids, lengths = columns[name], columns["lengths"]
    rows: np.ndarray = np.zeros(len(ids), row_dtype(ids.shape[1], vocab_size))
    rows["ids"], rows["length_a"], rows["length_b"] = ids, lengths[:, 0], lengths[:, 1]
    rows["random_next"] = columns["next_sentence_labels"][:, 0]
    rows["key"] = np.ascontiguousarray(columns["row_key"][:, 0]).view(np.uint64)
    return rows
