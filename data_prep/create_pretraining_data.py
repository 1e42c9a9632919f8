r"""Writes TFRecords for pretraining: masked tokens and next sentences, as google-research/bert.

    python data_prep/create_pretraining_data.py \
      --input_file=corpus/*.txt --output_file=records/train.tfrecord --vocab_file=vocab.txt \
      --num_output_shards=8

The input holds one sentence a line and a blank line between documents. The records hold the seven
features of google-research/bert in its lengths and types, so they can be used in its place.

Equal flags and input give equal bytes, whatever the number of workers. Beside the records appear
<stem>.manifest.json (flags, hash of the vocabulary, checksum of each shard), <stem>.stats.json
(what the records hold) and, last, <stem>.COMPLETED; <stem> is the output file's name without
".tfrecord" (part-1 for part.tfrecord-1). A run that was interrupted goes on when the same command
is given again. Held-out documents (--eval_fraction) go to <stem>.eval-00000-of-00001.tfrecord ...

Intermediate files need about one and a half times the size of the records beside them while it
runs, with several shards a half. Memory does not depend on the size of the input; a document may
have up to 8 MiB. The random next sentence is drawn from 64 MiB of the input, drawn anew for each
4 MiB: from the whole input if it is no larger, as released.
"""

import os
import shlex

from absl import flags

from bert_tf import command_line
from bert_tf.errors import InputError
from data_prep.pretraining_data import settings, stats
from data_prep.runners import beam, local

_DEFAULTS = settings.RecordsConfig("")

flags.DEFINE_string("input_file", None, "Text files, a comma list of globs.")
flags.DEFINE_string("output_file", None, "TFRecord file to write, or a comma list of them.")
flags.DEFINE_string("vocab_file", None, "Vocabulary, one token a line.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case: true for uncased models.")
flags.DEFINE_bool("do_whole_word_mask", False, "Mask all pieces of a word or none.")
flags.DEFINE_integer("max_seq_length", 128, "Length of a sequence in tokens.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Most masked tokens in a sequence.")
flags.DEFINE_integer("random_seed", 12345, "Seed of all draws.")
flags.DEFINE_integer("dupe_factor", 10, "Passes over the input, each with draws of its own.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to mask.")
flags.DEFINE_float("short_seq_prob", 0.1, "Probability that a document makes shorter sequences.")
flags.DEFINE_integer("num_output_shards", 1, "Number of files the records are spread over.")
flags.DEFINE_enum("compression", "", ["", "gzip"], "Compression of the records.")
flags.DEFINE_integer("max_ngram_size", 1, "Longest run of words that is masked as one.")
flags.DEFINE_float("mask_token_prob", 0.8, "Share of masked tokens that become [MASK].")
flags.DEFINE_float("random_token_prob", 0.1, "Share that become a random token; the rest stay.")
flags.DEFINE_enum(
    "objective",
    "mlm_nsp",
    settings.OBJECTIVES,
    "mlm_nsp: BERT's. mlm: no next sentence. causal: no masks either, for a left-to-right model.",
)
flags.DEFINE_bool("split_sentences", False, "Lines are paragraphs, to be split into sentences.")
flags.DEFINE_enum(
    "input_format",
    "text",
    settings.INPUT_FORMATS,
    "text: a sentence a line, a blank line between documents. jsonl: a document a line. "
    "tfds: a tensorflow-datasets data set.",
)
flags.DEFINE_string("tfds_name", "", "Data set and split for tfds, such as imdb_reviews:train.")
flags.DEFINE_string("tfds_data_dir", "", "Folder of prepared data sets; default: TFDS's own.")
flags.DEFINE_string("text_feature", "text", "Key of the text in jsonl and tfds.")
flags.DEFINE_float("eval_fraction", 0.0, "Share of the documents to hold out, in their own files.")
flags.DEFINE_bool(
    "break_documents_at_files",
    False,
    "A document ends with its file. As released it goes on in the next one, if no blank line ends "
    "the file.",
)
flags.DEFINE_bool("round_half_up", False, "4.5 masks are 5. As released (Python 3): 4.")
flags.DEFINE_bool(
    "keep_words_apart_at_sep",
    False,
    "With do_whole_word_mask: B never continues the last word of A. As released it does.",
)
flags.DEFINE_bool(
    "replace_whole_words",
    False,
    "With do_whole_word_mask: one draw of [MASK], random or same for a word. As released: a token.",
)
flags.DEFINE_enum(
    "same_document_label",
    "random",
    settings.SAME_DOCUMENT,
    "Label of a pair if ten draws of another document gave the document itself: random (as "
    "released) or next; never leaves the document out of the draw.",
)
flags.DEFINE_integer("num_workers", 0, "Most processes; 0 is all cores. Does not change a byte.")
flags.DEFINE_enum(
    "runner", "local", ["local", "beam"], "This machine, or Apache Beam; the bytes are the same."
)
flags.DEFINE_string("beam_options", "", "Beam's own options, such as '--runner=FlinkRunner ...'.")
flags.DEFINE_bool("overwrite", False, "Replace records that were made with other flags.")


def main() -> None:
    """Reads the flags and makes the records."""
    values = flags.FLAGS
    names = set(_DEFAULTS.to_dict()) & set(values)
    given = {name: getattr(values, name) for name in names}
    config = settings.RecordsConfig(**{**given, "vocab_file": values.vocab_file or ""})
    for name in ("vocab_file", "output_file", *(("input_file",) if not config.tfds_name else ())):
        if not getattr(values, name):
            raise InputError(f"--{name} is missing; see --help.")
    paths = [name.strip() for name in values.output_file.split(",") if name.strip()]
    arguments = config, values.input_file or "", paths
    if values.runner == "beam":
        options = shlex.split(values.beam_options)
        reports = beam.create(*arguments, options, values.overwrite)
    else:
        if values.num_workers < 0:
            raise InputError(
                f"num_workers must be at least 1, or 0 for all cores. Received: "
                f"{values.num_workers}."
            )
        workers = values.num_workers or os.cpu_count() or 1
        reports = local.create(*arguments, workers, values.overwrite)
    if not reports:
        print(f"{values.output_file} is complete and was made with the same flags: nothing to do.")
    for split, report in reports.items():
        print(f"{split}\n{stats.format_report(report)}")


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
