r"""Writes BERT's hidden states of the tokens of lines, as features for other models.

    python run_scripts/extract_features.py --input_file=/tmp/input.txt \
        --output_file=/tmp/output.jsonl --init_checkpoint=uncased_L-12_H-768_A-12.zip \
        --layers=-1,-2,-3,-4 --max_seq_length=128 --batch_size=8

Each line contains a sentence, or a sentence pair as "A ||| B". The output has the
format of google-research/bert, with one JSON object per line:

    {"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1,
    "values": [...]}]}]}

With --output_format=npz or --output_format=tfrecord, the program writes compact binary
files (shards) instead, each for --lines_per_shard lines. numpy.load reads an npz shard.
"""

from collections.abc import Iterable, Iterator

from absl import flags

from bert_tf.cli import shared_flags, trained_run
from bert_tf.corpus import text_formats
from bert_tf.errors import LARGEST_INT32, InputError
from bert_tf.feature_extraction.extraction_config import FORMATS, ExtractionConfig
from bert_tf.program import command_line, config_flags, startup
from bert_tf.progress import Progress

FLAGS = flags.FLAGS
config_flags.define_path(
    "input_file",
    "Comma list of globs: text files with one sentence per line, plain or as .gz; - is "
    "standard input.",
    required=True,
)
config_flags.define_path(
    "output_file", "The output file, or the prefix of the shards.", required=True
)
shared_flags.define_model_flags("The model, in any dialect of convert_checkpoint.")
flags.DEFINE_string(
    "layers", "-1,-2,-3,-4", "Layers: -1 the last, 0 the first, -(L+1) embeddings."
)
config_flags.define(ExtractionConfig, without=("layers",))
flags.DEFINE_enum(
    "output_format", "jsonl", FORMATS, "jsonl: the original format, large."
)
flags.DEFINE_enum(
    "output_dtype", "float32", ["float16", "float32"], "Data type in npz and tfrecord."
)
flags.DEFINE_integer(
    "lines_per_shard", 1000, "Lines per shard of npz and tfrecord.", 1, LARGEST_INT32
)
flags.DEFINE_bool("use_tpu", False, "Must be false: this program runs on CPU or GPU.")
flags.DEFINE_string("master", None, "Flag of google-research/bert; has no effect.")
flags.DEFINE_integer("num_tpu_cores", 8, "Flag of google-research/bert; has no effect.")
flags.DEFINE_bool(
    "use_one_hot_embeddings", False, "Flag of google-research/bert; has no effect."
)


def layers() -> tuple[int, ...]:
    """Returns the layer indices of --layers."""
    try:
        return tuple(map(int, FLAGS.layers.split(",")))
    except ValueError as error:
        raise InputError(
            "--layers must be integers separated by commas. Received: "
            f"{FLAGS.layers!r}."
        ) from error


def read_lines(paths: Iterable[str]) -> list[str]:
    """Returns the lines of text files, which must be UTF-8; there must be at least one line."""
    lines: list[str] = []
    for path in paths:
        for text, _ in text_formats.read_lines(path):
            lines += text.removesuffix("\n").split("\n")
    if not lines:
        raise InputError(f"There is no text in {FLAGS.input_file}.")
    return lines


def main() -> None:
    """Writes the hidden states of the input lines."""
    if FLAGS.use_tpu:
        raise InputError(
            "--use_tpu=true was given, but this program runs on CPU or GPU only."
        )
    for name in ("output_dtype", "lines_per_shard"):
        if FLAGS[name].present and FLAGS.output_format == "jsonl":
            raise InputError(
                f"--{name} has no effect with --output_format=jsonl. Leave it out."
            )
    if not FLAGS.init_checkpoint:
        raise InputError("The model is unknown. Give --init_checkpoint.")
    config = config_flags.build(ExtractionConfig, layers=layers())

    startup.import_tensorflow()
    from bert_tf.feature_extraction import feature_files
    from bert_tf.feature_extraction.extractor import FeatureExtractor, LineFeatures
    from bert_tf.modeling import BertEncoder

    input_paths = text_formats.input_files(
        FLAGS.input_file, "text", "", allow_pipes=True
    )
    lines = read_lines(input_paths)

    # Check the output before the model is loaded.
    model_files = filter(None, (FLAGS.vocab_file, FLAGS.bert_config_file))
    casing_file = f"{FLAGS.vocab_file}.json"  # next to the vocabulary, if there is one
    feature_files.check_output(
        FLAGS.output_file,
        FLAGS.output_format,
        [*input_paths, *model_files, casing_file],
        FLAGS.init_checkpoint,
        shards=-(-len(lines) // FLAGS.lines_per_shard),
    )

    model = trained_run.run_model().pretrained
    tokenizer = model.tokenizer
    encoder = model.model(BertEncoder)
    encoder.skip_padding = True

    extract = FeatureExtractor(encoder, tokenizer, config)
    with Progress("extracting", len(lines), "lines") as progress:

        def with_progress() -> Iterator[LineFeatures]:
            for features in extract(lines):
                progress.update(1)
                yield features

        feature_files.write(
            FLAGS.output_file,
            with_progress(),
            config=config,
            output_format=FLAGS.output_format,
            dtype=FLAGS.output_dtype,
            lines_per_shard=FLAGS.lines_per_shard,
        )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
