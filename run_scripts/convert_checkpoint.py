r"""Converts a BERT checkpoint to another format (dialect), and checks the result.

    python run_scripts/convert_checkpoint.py --from=uncased_L-12_H-768_A-12.zip \
        --to=/models/base
    python run_scripts/convert_checkpoint.py --from=/tmp/mrpc_output --to=/tmp/hf \
        --dialect=hugging_face

The program reads the written checkpoint and compares the written checkpoint with the
source: all weights must be equal bit by bit, and both models must give equal outputs
for a fixed input.
"""

from absl import flags

from bert_tf.program import command_line, config_flags, startup
from bert_tf.storage import checkpoint_formats

FLAGS = flags.FLAGS
config_flags.define_path(
    "from", f"The checkpoint to read: {checkpoint_formats.SOURCES}.", required=True
)
config_flags.define_path(
    "to",
    "The folder to write; a checkpoint of the same dialect in it is replaced.",
    required=True,
)
flags.DEFINE_enum(
    "dialect",
    "bert-tf",
    checkpoint_formats.WRITABLE_DIALECTS,
    "; ".join(
        f"{name}: {each.text}" for name, each in checkpoint_formats.WRITABLE.items()
    )
    + ".",
)
config_flags.define_path(
    "bert_config_file", "bert_config.json. Default: the one of --from."
)
config_flags.define_path("vocab_file", "vocab.txt. Default: the one of --from.")
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Casing of the vocabulary: true for uncased. Default: that of --from.",
)
flags.DEFINE_bool(
    "slots",
    False,
    "Convert Adam's moments too, so that the original programs can resume (google).",
)
flags.DEFINE_bool(
    "encoder_only", False, "Convert the encoder with its pooler, without heads."
)


def main() -> None:
    """Converts the checkpoint and prints a report."""
    startup.import_tensorflow()
    from bert_tf.conversion import convert, read_config

    config = read_config(FLAGS.bert_config_file) if FLAGS.bert_config_file else None
    report = convert(
        FLAGS["from"].value,
        FLAGS.to,
        FLAGS.dialect,
        slots=FLAGS.slots,
        config=config,
        encoder_only=FLAGS.encoder_only,
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
    )
    print(report)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
