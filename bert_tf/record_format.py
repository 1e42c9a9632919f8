"""The features of each kind of record, and the encoder and parser of records.

Shape letters: B batch, S sequence length, P predictions per sequence, C classes or
choices.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.storage import wire_format


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a record.

    Attributes:
        name: Key of the feature in `tf.train.Example`, as in google-research/bert.
        dtype: Dtype in the record, "int64" or "float32". "uint16" and "int32" stand for
            a string of packed little-endian numbers, without the zeros at the end.
            `parser` converts all integers to int32.
        shape: Sizes or shape letters, without the batch dimension; () for a single
            number.
        aliases: Keys of the same feature in record files of other programs.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]
    meaning: str
    aliases: tuple[str, ...] = ()


INPUTS = (
    Feature(
        "input_ids",
        "int64",
        shape=("S",),
        meaning="[CLS] A [SEP] B [SEP], then 0",
        aliases=("input_word_ids",),
    ),
    Feature("input_mask", "int64", ("S",), "1 = a token, 0 = padding"),
    Feature(
        "segment_ids",
        "int64",
        shape=("S",),
        meaning="0 for [CLS] A [SEP] and padding, 1 for B [SEP]",
        aliases=("input_type_ids",),
    ),
)
PRETRAINING = (
    *INPUTS,
    Feature(
        "masked_lm_positions",
        "int64",
        ("P",),
        "positions to predict, ascending, then 0",
    ),
    Feature(
        "masked_lm_ids", "int64", ("P",), "original ids at these positions, then 0"
    ),
    Feature(
        "masked_lm_weights", "float32", ("P",), "1.0 = a prediction, 0.0 = padding"
    ),
    Feature(
        "next_sentence_labels", "int64", ("1",), "0 = B follows A, 1 = B is random"
    ),
)
# Features of a record without masks, which are drawn while a model trains. `row_key` is
# an unsigned number, whose bits are stored as int64.
UNMASKED = (
    Feature("lengths", "int64", ("2",), "numbers of tokens in A and in B"),
    PRETRAINING[-1],
    Feature(
        "row_key", "int64", ("1",), "64 random bits, from which the masks are derived"
    ),
)
_IS_REAL = Feature(
    "is_real_example", "int64", (), "0 for an example that only pads a batch"
)
CLASSIFICATION = (
    *INPUTS,
    Feature("label_ids", "int64", (), "index of the label"),
    _IS_REAL,
)
REGRESSION = (
    *INPUTS,
    Feature("label_ids", "float32", (), "score"),
    _IS_REAL,
)
MULTI_LABEL = (
    *INPUTS,
    Feature(
        "label_ids", "float32", ("C",), "1.0 for each label of the example, else 0.0"
    ),
    _IS_REAL,
)
TAGGING = (
    *INPUTS,
    Feature(
        "label_ids",
        "int64",
        ("S",),
        "1 + the index of the tag, at the first token of each word to tag; 0 = ignored",
    ),
)
# The number of a record in its file; `tasks.record_files` writes it.
UNIQUE_IDS = Feature(
    "unique_ids", "int64", (), "1,000,000,000 + the index of the record"
)
FIRST_UNIQUE_ID = 1_000_000_000
SPAN = (
    UNIQUE_IDS,
    *INPUTS,
    Feature(
        "start_positions", "int64", (), "position of the answer's first token, else 0"
    ),
    Feature(
        "end_positions", "int64", (), "position of the answer's last token, else 0"
    ),
    Feature("is_impossible", "int64", (), "1 = the question has no answer"),
)
CHOICE = (
    *(dataclasses.replace(feature, shape=("C", *feature.shape)) for feature in INPUTS),
    Feature(
        "num_choices",
        "int64",
        (),
        "number of choices; the other of C sequences are padding",
    ),
    Feature("label_ids", "int64", (), "index of the correct choice"),
)
EMBEDDING = (
    *CHOICE[: len(INPUTS)],
    Feature(
        "text_keys",
        "int64",
        ("C", "2"),
        "61 bits of a hash of the tokens of each of C texts; 0 for a missing text",
    ),
    Feature("label_ids", "float32", (), "score, or 0"),
)

Table = Sequence[Feature]
Sizes = Mapping[str, int]  # by shape letter


def ids_dtype(vocab_size: int) -> str:
    """Returns the dtype of packed ids: "uint16" if it holds all ids, else "int32"."""
    return "uint16" if vocab_size <= 1 << 16 else "int32"


def unmasked(vocab_size: int) -> Table:
    """Returns the features of a record without masks, which are drawn while a model trains."""
    dtype = ids_dtype(vocab_size)
    ids = Feature(f"ids_{dtype}", dtype, ("S",), "[CLS] A [SEP] B [SEP], then 0")
    return (ids, *UNMASKED)


def is_unmasked(record: bytes) -> bool:
    """Returns whether a serialized record has no masks, as `unmasked` describes it."""
    return UNMASKED[-1].name in (values_in(record) or {})


def unmasked_lengths(values: Mapping[str, Any]) -> Any:
    """Returns the number of tokens, with [CLS] and [SEP], of each unmasked record: [B]."""
    import tensorflow as tf

    lengths = values["lengths"]
    return (
        tf.reduce_sum(lengths, axis=1) + 2 + tf.cast(lengths[:, 1] > 0, lengths.dtype)
    )


def encode(columns: Mapping[str, np.ndarray], table: Table) -> list[bytes]:
    """Serializes B examples, each as a `tf.train.Example`.

    `columns` has an array [B, ...] for each feature of the table. Values of int64
    features may have any integer dtype.
    """
    if not len(columns[table[0].name]):
        return []
    return wire_format.encode(
        [(f.name, f.dtype, np.asarray(columns[f.name])) for f in table]
    )


def shape_of(feature: Feature, sizes: Sizes) -> list[int]:
    """Returns the shape of a feature in one record, with `sizes` in place of shape letters."""
    return [int(sizes.get(letter, letter)) for letter in feature.shape]


def parser(
    table: Table,
    sizes: Sizes,
    names: Mapping[str, str] = {},
    keep_int64: bool = False,
) -> Any:
    """Returns a function for `tf.data.Dataset.map` that parses a batch of examples.

    Args:
        sizes: Size by shape letter, such as {"S": 128, "P": 20}.
        names: The key in the files for each feature name, as `names_in` returns them.
            By default, the keys are the feature names.
        keep_int64: Whether to return int64 instead of int32, for checks of values that
            int32 cannot represent.

    Returns:
        A function from a string tensor [B] to a dict of tensors [B, ...], int32 (or
        int64) or float32.
    """
    import tensorflow as tf

    def spec(feature: Feature) -> Any:
        if feature.dtype in wire_format.PACKED:
            return tf.io.FixedLenFeature([], tf.string)
        return tf.io.FixedLenFeature(
            shape_of(feature, sizes), getattr(tf, feature.dtype)
        )

    def value(feature: Feature, parsed: Any) -> Any:
        if feature.dtype not in wire_format.PACKED:
            return parsed
        (length,) = shape_of(feature, sizes)
        dtype = tf.as_dtype(feature.dtype)
        numbers = tf.io.decode_raw(parsed, dtype, fixed_length=length * dtype.size)
        return tf.cast(numbers, tf.int64)

    # The keys and types in the file.
    specs = {names.get(feature.name, feature.name): spec(feature) for feature in table}

    def parse(serialized: Any) -> dict[str, Any]:
        parsed = tf.io.parse_example(serialized, specs)
        values = {f.name: value(f, parsed[names.get(f.name, f.name)]) for f in table}
        return values if keep_int64 else to_int32(values)

    return parse


def to_int32(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parsed features, with int64 tensors converted to int32."""
    import tensorflow as tf

    return {
        k: tf.cast(v, tf.int32) if v.dtype == tf.int64 else v for k, v in values.items()
    }


def values_in(record: bytes) -> Any:
    """Returns the features in a record by key; None if it is not a `tf.train.Example`."""
    import tensorflow as tf

    try:
        return tf.train.Example.FromString(record).features.feature
    except Exception:  # The module of DecodeError depends on protobuf's version.
        return None


def names_in(example: bytes, table: Table, sizes: Sizes, path: str) -> dict[str, str]:
    """Checks an example of a file, and returns for each feature its key in the file.

    Raises:
        InputError: A feature of the table is missing, or its length differs from
            `sizes`.
    """
    features = values_in(example)
    if features is None:
        raise InputError(f"{path} contains a record that is not a tf.train.Example.")

    names = {}
    for feature in table:
        name = next(
            (n for n in (feature.name, *feature.aliases) if n in features), None
        )
        if name is None:
            raise InputError(
                f"{path} has no feature {feature.name}. It has: "
                f"{', '.join(sorted(features))}."
            )

        # The number of values must be that of the shape.
        lists = features[name]
        length = len(lists.int64_list.value) or len(lists.float_list.value)
        expected = int(np.prod(shape_of(feature, sizes)))
        if feature.dtype in wire_format.PACKED:
            length = len(lists.bytes_list.value)
            expected = 1
        if length != expected:
            raise InputError(
                f"{path} has {name} of length {length}, but length {expected} is "
                "expected. Give the lengths that the records were created with, or "
                "create them again."
            )

        names[feature.name] = name
    return names
