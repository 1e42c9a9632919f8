"""`RecordsConfig`: all settings that determine the bytes of the records."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from bert_tf.config_fields import documented, option
from bert_tf.corpus import text_formats
from bert_tf.errors import InputError, check_between, check_choices
from bert_tf.masking.masking_config import MaskingConfig

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
# The version of the procedure, a part of every fingerprint. Increase the version when a
# change of the code changes the bytes of the records.
_VERSION = 2


@documented
@dataclasses.dataclass(frozen=True)
class RecordsConfig(MaskingConfig):
    """The settings that determine the bytes of the records.

    Each setting has the same name as its flag.

    With `masking` = dynamic, the settings of `MaskingConfig` must have their defaults.

    Raises:
        InputError: A value is outside its range, or is not the default although the
            setting has no effect. The message contains the name.

    Source: google-research/bert `create_pretraining_data.py`, its flags and defaults.
    """

    vocab_file: str = option(
        dataclasses.MISSING, "The vocabulary, one token per line.", is_path=True
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case the text: true for uncased models, false for cased. "
        "If not given: the casing that train_vocabulary wrote next to the "
        "vocabulary; without it, false if at least 1 % of the entries have "
        "upper-case letters, and else true.",
    )
    masking: str = option(
        "static",
        "static: the records contain the masks, as in google-research/bert. dynamic: "
        "the records contain unmasked sequences, and the training makes new masks in "
        "each epoch.",
        choices=("static", "dynamic"),
    )
    max_seq_length: int = option(128, "Length of a sequence, S, in tokens.")
    random_seed: int = option(12345, "Seed of all random draws; any integer.")
    dupe_factor: int = option(
        10, "Number of passes over the input. Each pass has its own random draws."
    )
    short_seq_prob: float = option(
        0.1, "Probability that a document is cut into shorter sequences, in [0, 1]."
    )
    objective: str = option(
        "mlm_nsp",
        "Training objective. mlm_nsp: masked tokens and next sentence, as in BERT. "
        "mlm: masked tokens only. causal: no masked tokens, for a left-to-right "
        "model.",
        choices=OBJECTIVES,
    )
    input_format: str = option(
        "auto",
        "Format of the input. auto: by the extension of each file name (.jsonl, "
        ".tfrecord, .parquet, also with .gz or .bz2; other files are text), and "
        "wikiextractor for text files that begin with <doc id=.",
        choices=("auto", *text_formats.FORMATS, "tfds"),
    )
    tfds_name: str = option(
        "",
        "Data set and split of tensorflow-datasets to read instead of input_file, "
        "such as imdb_reviews:train.",
    )
    tfds_data_dir: str = option(
        "",
        "Folder that contains the prepared data sets of tensorflow-datasets; empty "
        "for the default folder of tensorflow-datasets.",
        is_path=True,
    )
    text_feature: str = option(
        "text",
        "Name of the JSON key, feature or column that contains the text. Not used "
        "for text files.",
    )
    split_sentences: bool = option(
        False,
        "Whether to split each line of the input into sentences. If false, each line "
        "is one sentence.",
    )
    eval_fraction: float = option(
        0.0,
        "Share of the documents to hold out for evaluation, in [0, 1). The records "
        "of the held-out documents are written to separate files.",
    )
    num_output_shards: int = option(
        1, "Number of files to write the training records to."
    )
    compression: str = option(
        "", "Compression of the record files; empty for none.", choices=("", "gzip")
    )
    break_documents_at_files: bool = option(
        False,
        "Whether the end of a text file ends a document. If false, the last document "
        "of a file continues in the next file unless a blank line ends the document, "
        "as in google-research/bert.",
    )
    same_document_label: str = option(
        "random",
        "Label of a pair if ten draws of a random document for text B all gave the "
        "document of text A. random: label 1, as in google-research/bert. next: "
        "label 0. never: the document of text A is excluded from the draws.",
        choices=("random", "next", "never"),
    )
    allow_truncation: bool = option(
        False,
        "Whether truncation may remove more than half of the tokens. If false, such "
        "an input is refused. This setting does not change the bytes of records.",
    )
    segment_bytes: int = option(
        4 << 20,
        "Size of a segment in bytes. A segment is a part of the input that is read "
        "and paired as one unit of work.",
    )
    pool_bytes: int = option(
        64 << 20,
        "Number of bytes of text from which the random next sentences of one segment "
        "are drawn.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # The largest number of a shard in a file name is 99,999.
        check_between(1, 99_999, self, "dupe_factor", "num_output_shards")
        check_between(0, 1, self, "short_seq_prob", "eval_fraction")
        check_choices(self)
        if not 2 <= self.max_num_tokens <= 1 << 14:
            raise InputError(
                "max_seq_length must leave 2 to 16384 tokens in addition to the "
                f"{self.specials} special ones. Received: {self.max_seq_length}."
            )

        # The default value is allowed with any length, as in google-research/bert.
        largest = max(self.max_seq_length, RecordsConfig.max_predictions_per_seq)
        if self.max_predictions_per_seq > largest:
            raise InputError(
                f"max_predictions_per_seq must not exceed max_seq_length, which is "
                f"{self.max_seq_length}. Received: {self.max_predictions_per_seq}."
            )

        if self.tfds_name and self.input_format == "auto":
            object.__setattr__(self, "input_format", "tfds")

        # A flag that has no effect together with the other flags raises an error.
        other_objective = f"another objective than {self.objective}"
        is_causal = self.objective == "causal"
        self.check_effect(bool(self.tfds_name), "tfds_name", "tfds_data_dir")
        self.check_effect(self.paired, other_objective, "same_document_label")
        self.check_effect(
            not is_causal,
            other_objective,
            "masking",
            "do_whole_word_mask",
            "max_ngram_size",
        )

        in_training = "masking=static, because run_pretraining makes the masks"
        names = (field.name for field in dataclasses.fields(MaskingConfig))
        self.check_effect(self.masking == "static", in_training, *names)

        if (self.input_format == "tfds") != bool(self.tfds_name):
            raise InputError(
                "input_format=tfds and tfds_name go together; give both or neither."
            )

    def with_format_of(self, file_formats: Iterable[str]) -> "RecordsConfig":
        """Returns a copy with the format of all files; these settings if the formats differ."""
        formats = {*file_formats}
        return (
            dataclasses.replace(self, input_format=formats.pop())
            if len(formats) == 1
            else self
        )

    @property
    def documents_end_at_files(self) -> bool:
        """Whether a document ends with its file, even without a blank line."""
        return self.break_documents_at_files or self.input_format != "text"

    @property
    def paired(self) -> bool:
        """Whether a sequence is [CLS] A [SEP] B [SEP] instead of [CLS] A [SEP]."""
        return self.objective == "mlm_nsp"

    @property
    def masked_share(self) -> float:
        """Share of masked tokens in the records; 0 if masking is dynamic or for causal."""
        is_masked = self.masking == "static" and self.objective != "causal"
        return self.masked_lm_prob if is_masked else 0.0

    @property
    def specials(self) -> int:
        """Number of special tokens in a sequence."""
        return 3 if self.paired else 2

    @property
    def max_num_tokens(self) -> int:
        """Largest number of tokens in a sequence, without the special tokens."""
        return self.max_seq_length - self.specials

    def fingerprint(self, vocabulary_sha256: str, inputs: list[dict[str, Any]]) -> str:
        """Returns a hexadecimal hash of these settings, the vocabulary and the input.

        `inputs` has a dictionary for each input, in order: the path, which is not
        hashed, and values that identify the content, such as its size and SHA-256.
        """
        content = [{k: v for k, v in entry.items() if k != "path"} for entry in inputs]
        others = ["vocab_file", "tfds_data_dir", "allow_truncation"]
        if self.masking == "static":  # an earlier version had no other masking
            others.append("masking")
        settings = {
            k: v for k, v in dataclasses.asdict(self).items() if k not in others
        }
        parts = [_VERSION, settings, vocabulary_sha256, content]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
