r"""Pretrains BERT with masked-LM and next-sentence prediction, and evaluates the model.

Reads TFRecords created by data_prep/create_pretraining_data.py, by google-research/bert
or by the TensorFlow Model Garden. The same command resumes an interrupted run from its
last checkpoint.

    python run_scripts/run_pretraining.py \
        --input_file=/data/pretraining-*.tfrecord \
        --eval_input_file=/data/eval.tfrecord \
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \
        --output_dir=/models/mine \
        --do_train=true --do_eval=true --max_seq_length=128 \
        --max_predictions_per_seq=20 \
        --num_train_steps=100000 --num_warmup_steps=10000 --learning_rate=1e-4

Writes to --output_dir: checkpoints/, TensorBoard events and metrics.jsonl. With
--do_eval=true also writes eval_results.txt. The other programs accept each checkpoint
in checkpoints/ as --init_checkpoint.
"""

from absl import flags

from bert_tf.cli import shared_flags, trained_run
from bert_tf.errors import InputError
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining.pretraining_config import PretrainingConfig, PretrainingRecords
from bert_tf.program import command_line, config_flags, startup
from bert_tf.storage.checkpoint_formats import AUTHORS
from bert_tf.training.training_config import RunPhases, TrainingConfig

FLAGS = flags.FLAGS
config_flags.define_path("input_file", "Comma list of globs: the records to train on.")
config_flags.define_path(
    "eval_input_file",
    "Comma list of globs: held-out records to evaluate on, such as those that "
    "create_pretraining_data.py --eval_fraction=0.05 writes. Default: --input_file, as "
    "in google-research/bert.",
)
config_flags.define_path("output_dir", "Folder of this run.", required=True)
config_flags.define(
    PretrainingConfig, without=("objective", "eval_batch_size", "skip_bad_records")
)
config_flags.define(
    MaskingConfig,
    without=("max_predictions_per_seq",),
    condition="For records of --masking=dynamic. ",
)
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool(
    "do_eval", False, "Whether to evaluate at the end and write eval_results.txt."
)
flags.DEFINE_integer(
    "num_warmup_steps",
    None,
    "Number of steps in which the learning rate rises. Default: a tenth of "
    "--num_train_steps, at most 10000.",
)
config_flags.define(
    TrainingConfig,
    ("num_train_steps", "time_budget_secs"),
    texts={"num_train_steps": "Number of training steps."},
)
config_flags.define(PretrainingConfig, ("objective", "skip_bad_records"))
shared_flags.define_model_flags(
    f"Initial weights: a checkpoint of {AUTHORS}. Default: random weights."
)
shared_flags.define_training_flags()


def main() -> None:
    """Trains and evaluates, as --do_train and --do_eval say."""
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError(
            "Nothing to do: give --do_train=true, --do_eval=true, or both."
        )
    if not FLAGS.input_file and (FLAGS.do_train or not FLAGS.eval_input_file):
        raise InputError("--input_file is required. See --help.")
    shared_flags.check_output_dir(("input_file", "eval_input_file"))

    # The configs report wrong flags before TensorFlow is imported.
    runtime = shared_flags.runtime_config()
    # The default is that of google-research/bert, 10,000, and less for runs that have
    # fewer steps than the default of --num_train_steps, 100,000.
    warmup_steps = FLAGS.num_warmup_steps
    if warmup_steps is None:
        warmup_steps = min(10_000, FLAGS.num_train_steps // 10)
    training = config_flags.build(TrainingConfig, num_warmup_steps=warmup_steps)
    config = config_flags.build(PretrainingConfig)
    limit = config.max_predictions_per_seq or PretrainingRecords.max_predictions_per_seq
    masking = config_flags.build(MaskingConfig, max_predictions_per_seq=limit)

    startup.import_backend(FLAGS.backend)
    from bert_tf.runs.pretrain import pretrain

    results = pretrain(
        FLAGS.input_file,
        FLAGS.output_dir,
        eval_input_file=FLAGS.eval_input_file,
        **trained_run.model_flags(),
        overwrite=FLAGS.overwrite,
        phases=RunPhases(FLAGS.do_train, FLAGS.do_eval),
        config=config,
        masking=masking,
        training=training,
        runtime=runtime,
    )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
