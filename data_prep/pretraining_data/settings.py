"""`RecordsConfig`: all settings that decide the bytes of the records, with their defaults.

Imports `errors`, `corpus.formats`.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any, ClassVar

from bert_tf.errors import InputError, check_at_least, check_between, check_choice
from data_prep.corpus import formats

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
_POSITIVE = ("max_predictions_per_seq", "dupe_factor", "num_output_shards", "max_ngram_size")
# Part of every fingerprint: increase it with any change of the procedure or of a constant that
# changes the bytes.
_VERSION = 2


@dataclasses.dataclass(frozen=True)
class RecordsConfig:
    """Settings that decide the bytes of the records, named as the flags.

    Attributes:
        vocab_file: The vocabulary, one token per line.
        do_lower_case: Whether to lower-case: true for uncased models.
        do_whole_word_mask: Mask all pieces of a word or none.
        max_seq_length: Length of a sequence, S, in tokens.
        max_predictions_per_seq: Most masked tokens in a sequence, P.
        random_seed: Seed of all random draws; any integer.
        dupe_factor: Passes over the input, each with its own random draws.
        masked_lm_prob: Share of the tokens to mask, in [0, 1].
        short_seq_prob: Probability that a document makes shorter sequences, in [0, 1].
        mask_token_prob: Share of masked tokens that become [MASK], in [0, 1].
        random_token_prob: Share of masked tokens that become a random token, in [0, 1]; the rest
            stay.
        max_ngram_size: Longest run of words that is masked as one; 1 as released.
        objective: mlm_nsp: BERT's. mlm: no next sentence. causal: no masks either, for a
            left-to-right model.
        input_format: Format of the input. auto: by the ending of each file name (.jsonl, .tfrecord,
            .parquet, each also with .gz except .parquet; others are text).
        tfds_name: Data set and split of tensorflow-datasets, such as imdb_reviews:train, instead of
            input_file.
        tfds_data_dir: Folder of prepared tensorflow-datasets, if not the default one.
        text_feature: JSON key, feature or column that holds the text, for all formats except text.
        split_sentences: Lines are paragraphs, to be split into sentences.
        eval_fraction: Share of the documents to hold out, in separate files, in [0, 1).
        num_output_shards: Number of files to write the training records to.
        compression: Compression of the records.
        break_documents_at_files: A document ends with its file. As released, it continues in the
            next file if the file does not end with a blank line.
        round_half_up: 4.5 masks are 5. As released (Python 3): 4, the even number.
        keep_words_apart_at_sep: With do_whole_word_mask: text B never continues the last word of
            text A. As released, "##" joins words over [SEP].
        replace_whole_words: With do_whole_word_mask: one draw of [MASK], random or same per word.
            As released: per token.
        same_document_label: Label of a pair if ten draws of another document all gave the document
            itself. random: as released, label 1. next: label 0. never: the document is left out of
            the draw.
        segment_bytes: Text that is read and paired as one piece of work, in bytes.
        pool_bytes: Text that the random next sentences of one segment are drawn from, in bytes.

    Raises:
        InputError: A value is outside its range; the message has its name and the value.

    Source: google-research/bert `create_pretraining_data.py`, its flags and defaults.
    """

    CHOICES: ClassVar = {
        "objective": OBJECTIVES,
        "input_format": ("auto", *formats.FORMATS, "tfds"),
        "compression": ("", "gzip"),
        "same_document_label": ("random", "next", "never"),
    }
    vocab_file: str
    do_lower_case: bool = True
    do_whole_word_mask: bool = False
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1
    max_ngram_size: int = 1
    objective: str = "mlm_nsp"
    input_format: str = "auto"
    tfds_name: str = ""
    tfds_data_dir: str = ""
    text_feature: str = "text"
    split_sentences: bool = False
    eval_fraction: float = 0.0
    num_output_shards: int = 1
    compression: str = ""
    break_documents_at_files: bool = False
    round_half_up: bool = False
    keep_words_apart_at_sep: bool = False
    replace_whole_words: bool = False
    same_document_label: str = "random"
    segment_bytes: int = 4 << 20
    pool_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        check_at_least(1, self, *_POSITIVE)
        shares = [field.name for field in dataclasses.fields(self) if type(field.default) is float]
        check_between(0, 1, self, *shares)
        for name, choices in self.CHOICES.items():
            check_choice(choices, self, name)
        if not 2 <= self.max_num_tokens <= 1 << 14:
            raise InputError(
                f"max_seq_length must leave 2 to 16384 tokens in addition to the {self.specials} "
                f"special ones. Received: {self.max_seq_length}."
            )
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise InputError(
                "mask_token_prob and random_token_prob must not sum to more than 1. Received: "
                f"{self.mask_token_prob} and {self.random_token_prob}."
            )
        if self.eval_fraction == 1:
            raise InputError("eval_fraction must be below 1, or nothing is left to train on.")
        if self.tfds_name and self.input_format == "auto":
            object.__setattr__(self, "input_format", "tfds")
        if (self.input_format == "tfds") != bool(self.tfds_name):
            raise InputError("input_format=tfds and tfds_name go together; give both or neither.")

    def with_format_of(self, paths: Iterable[str]) -> "RecordsConfig":
        """Replaces the input format "auto" by that of the files, unless they have several."""
        found = {formats.format_of(path, self.input_format) for path in paths}
        return dataclasses.replace(self, input_format=found.pop()) if len(found) == 1 else self

    @property
    def documents_end_at_files(self) -> bool:
        """Whether the last document of a file ends with the file, even without a blank line."""
        return self.break_documents_at_files or self.input_format != "text"

    @property
    def paired(self) -> bool:
        """Whether a sequence is [CLS] A [SEP] B [SEP], not [CLS] A [SEP]."""
        return self.objective == "mlm_nsp"

    @property
    def specials(self) -> int:
        """Number of special tokens in a sequence."""
        return 3 if self.paired else 2

    @property
    def max_num_tokens(self) -> int:
        """Most ordinary tokens in a sequence."""
        return self.max_seq_length - self.specials

    def fingerprint(self, vocabulary_sha256: str, inputs: list[dict[str, Any]]) -> str:
        """Returns a hexadecimal hash of these settings, the vocabulary and the input.

        Args:
            vocabulary_sha256: Hash of the vocabulary.
            inputs: For each input, in order: its path, and values that identify its content.
        """
        content = [{k: v for k, v in each.items() if k != "path"} for each in inputs]
        if self.input_format == "auto":
            for each, entry in zip(inputs, content, strict=True):
                entry["format"] = formats.format_of(each["path"])
        paths = ("vocab_file", "tfds_data_dir")
        settings = {k: v for k, v in dataclasses.asdict(self).items() if k not in paths}
        parts = [_VERSION, settings, vocabulary_sha256, content]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
