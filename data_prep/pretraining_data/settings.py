"""`RecordsConfig`: everything that decides the bytes of the records.

Imports `errors`.
"""

import dataclasses
import hashlib
import json
from typing import Any

from bert_tf.errors import InputError

OBJECTIVES = ("mlm_nsp", "mlm", "causal")
INPUT_FORMATS = ("text", "jsonl", "tfds")
COMPRESSIONS = ("", "gzip")
SAME_DOCUMENT = ("random", "next", "never")
_PROBABILITIES = (
    "masked_lm_prob",
    "short_seq_prob",
    "mask_token_prob",
    "random_token_prob",
    "eval_fraction",
)
_POSITIVE = ("max_predictions_per_seq", "dupe_factor", "num_output_shards", "max_ngram_size")
# Part of what decides the bytes, so it is part of every fingerprint: raise it with any change of
# the procedure or of a constant below.
_VERSION = 2


@dataclasses.dataclass(frozen=True)
class RecordsConfig:
    """What decides the bytes of the records, under the names of the flags.

    Attributes:
        vocab_file: The vocabulary, one token a line.
        do_lower_case: Whether the tokenizer lower-cases.
        do_whole_word_mask: Mask all pieces of a word or none.
        max_seq_length: Length of a sequence, S, in tokens.
        max_predictions_per_seq: Most masked tokens in a sequence, P.
        random_seed: Any integer; the same seed gives the same bytes.
        dupe_factor: Passes over the corpus, each with draws of its own.
        masked_lm_prob: Share of the tokens to mask, in [0, 1].
        short_seq_prob: Probability that a document is cut to a random shorter length, in [0, 1].
        mask_token_prob: Share of masked tokens that become [MASK], in [0, 1].
        random_token_prob: Share that become a random token, in [0, 1]; the rest stay.
        max_ngram_size: Longest run of words that is masked as one, in words; 1 is the released way.
        objective: "mlm_nsp" (BERT), "mlm" (no next sentence) or "causal" (no masks).
        input_format: "text", "jsonl" or "tfds".
        tfds_name: Name and split for "tfds", such as "imdb_reviews:train".
        tfds_data_dir: Folder of prepared tensorflow-datasets; "" is its default.
        text_feature: Key of the text in a "jsonl" line or a "tfds" example.
        split_sentences: Lines are paragraphs to split into sentences.
        eval_fraction: Share of the documents that are held out, in [0, 1).
        num_output_shards: Number of training shards.
        compression: "" or "gzip".
        break_documents_at_files: A document ends where its file ends. Released: it does not.
        round_half_up: 4.5 masks are 5. Released under Python 3: to the even number, 4.
        keep_words_apart_at_sep: B never continues A's last word. Released: "##" joins over [SEP].
        replace_whole_words: One 80/10/10 draw a word. Released: one a token, whole words too.
        same_document_label: If ten draws of another document all give the document itself: "random"
            (released: label 1), "next" (label 0), or "never" (it is left out of the draw).
        segment_bytes: Text that is read and paired as one piece of work, in bytes.
        pool_bytes: Text that the random next sentences of one segment are drawn from, in bytes.

    Raises:
        InputError: A value that cannot be, named with what was received.

    Source: google-research/bert `create_pretraining_data.py`, its flags and defaults.
    """

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
    input_format: str = "text"
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
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1. Received: {getattr(self, name)}.")
        for name in _PROBABILITIES:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must be in [0, 1]. Received: {getattr(self, name)}.")
        self._check_choice("objective", OBJECTIVES)
        self._check_choice("input_format", INPUT_FORMATS)
        self._check_choice("compression", COMPRESSIONS)
        self._check_choice("same_document_label", SAME_DOCUMENT)
        self._check_lengths()
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise InputError(
                "mask_token_prob and random_token_prob must not sum to more than 1. Received: "
                f"{self.mask_token_prob} and {self.random_token_prob}."
            )
        if self.eval_fraction == 1:
            raise InputError("eval_fraction must be below 1, or nothing is left to train on.")
        if (self.input_format == "tfds") != bool(self.tfds_name):
            raise InputError("input_format=tfds and tfds_name go together; give both or neither.")

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise InputError(
                f"{name} must be one of {', '.join(map(repr, choices))}. "
                f"Received: {getattr(self, name)!r}."
            )

    def _check_lengths(self) -> None:
        if not 2 <= self.max_num_tokens <= 1 << 14:
            raise InputError(
                f"max_seq_length must leave room for 2 to 16384 tokens beside the {self.specials} "
                f"special ones. Received: {self.max_seq_length}."
            )

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

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values."""
        return dataclasses.asdict(self)

    def fingerprint(self, vocabulary_sha256: str, inputs: list[dict[str, Any]]) -> str:
        """Hexadecimal hash of all that decides the bytes: procedure, vocabulary, input.

        Args:
            vocabulary_sha256: Hash of the vocabulary.
            inputs: For each input, in order, what identifies its content; paths do not count.
        """
        content = [{k: v for k, v in each.items() if k != "path"} for each in inputs]
        places = ("vocab_file", "tfds_data_dir")
        flags = {k: v for k, v in self.to_dict().items() if k not in places}
        parts = [_VERSION, flags, vocabulary_sha256, content]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
