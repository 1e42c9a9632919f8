r"""Pretrains BERT with masked-LM and next-sentence prediction, and evaluates it.

Reads the TFRecords of data_prep/create_pretraining_data.py (those of google-research/bert and
the Model Garden too). Started again with the same flags, it goes on from its last checkpoint.

    python run_scripts/run_pretraining.py \
        --input_file=/data/pretraining-*.tfrecord --eval_input_file=/data/eval.tfrecord \
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=/models/mine \
        --do_train=true --do_eval=true --max_seq_length=128 --max_predictions_per_seq=20 \
        --num_train_steps=100000 --num_warmup_steps=10000 --learning_rate=1e-4

Writes to --output_dir: checkpoints/ (each can be the --init_checkpoint of another program),
TensorBoard events and metrics.jsonl, and with --do_eval=true eval_results.txt.
"""

import dataclasses
import os
import sys

from absl import flags

from bert_tf import command_line
from bert_tf.errors import InputError
from bert_tf.pretraining import damage, data
from bert_tf.pretraining.objective import OBJECTIVES
from bert_tf.pretraining.run import Records, Steps, pretrain
from bert_tf.training.strategy import make_strategy
from run_scripts import flags as shared

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Comma list of globs: the records to train on.")
flags.DEFINE_string(
    "eval_input_file", None,
    "Comma list of globs: held-out records to evaluate on. Without it --do_eval uses --input_file, "
    "as google-research/bert does.",
)  # fmt: skip
flags.DEFINE_string("output_dir", None, "Folder of this run.")
flags.DEFINE_integer("max_seq_length", 128, "Length of the records' sequences.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Length of the records' predictions.")
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate at the end, into eval_results.txt.")
flags.DEFINE_integer("num_train_steps", 100000, "Steps in all.")
flags.DEFINE_integer("num_warmup_steps", 10000, "Steps in which the learning rate rises.")
flags.DEFINE_integer("max_eval_steps", 100, "Most batches of an evaluation; 0 means all.")
flags.DEFINE_enum(
    "objective", "mlm_nsp", OBJECTIVES,
    "mlm_nsp: BERT's. mlm: no next sentence. causal: each token from those before it, with causal "
    "attention; its records are made with --objective=causal.",
)  # fmt: skip
flags.DEFINE_integer(
    "shuffle_buffer_size", 10000, "Examples that the order of training is drawn from."
)
flags.DEFINE_bool(
    "skip_bad_records", False, "Read all records first; of damaged files use copies, in "
    "--output_dir, without the damaged records, or without the rest where a length is damaged.",
)  # fmt: skip
shared.define_model_flags(
    "Weights to start from: a checkpoint of google-research/bert, a Hugging Face folder, or "
    "a checkpoint folder of ours. Without it they are drawn at random."
)
shared.define_training_flags()
flags.adopt_module_key_flags(shared)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main() -> None:
    """Trains and evaluates as the flags say."""
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("Nothing to do: give --do_train=true, --do_eval=true, or both.")
    runtime = shared.runtime_config()
    strategy = make_strategy(runtime)
    config = shared.bert_config()
    if FLAGS.objective == "causal":
        config = dataclasses.replace(config, attention="causal")
    shared.check_length(FLAGS.max_seq_length, config)
    tokenizer = shared.tokenizer(config) if shared.vocab_file() else None
    train_files = data.record_files(FLAGS.input_file)
    eval_files = data.record_files(FLAGS.eval_input_file or FLAGS.input_file)
    records = Records(
        train_files=_readable(train_files),
        eval_files=_readable(eval_files),
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps,
        shuffle_buffer_size=FLAGS.shuffle_buffer_size,
    )
    sha256 = tokenizer.vocabulary_sha256 if tokenizer else None
    casing = tokenizer.do_lower_case if tokenizer else None
    settings = {
        "records": data.fingerprint(train_files),
        "init_checkpoint": FLAGS.init_checkpoint,
        "objective": FLAGS.objective,
        "max_seq_length": FLAGS.max_seq_length,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "shuffle_buffer_size": FLAGS.shuffle_buffer_size,
        "vocabulary_sha256": sha256,
        "do_lower_case": casing,
    }
    training = shared.training_config(FLAGS.num_train_steps, FLAGS.num_warmup_steps, settings)
    data.check_manifests(
        [*train_files, *eval_files], config.vocab_size, sha256, casing, FLAGS.objective
    )
    results = pretrain(
        Steps(FLAGS.do_train, FLAGS.do_eval, FLAGS.objective, FLAGS.overwrite),
        records,
        config,
        shared.model_description(config, tokenizer),
        training,
        runtime,
        FLAGS.output_dir,
        shared.initializer(),
        strategy,
    )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")


def _readable(paths: list[str]) -> list[str]:
    """The files, with --skip_bad_records copies of the damaged ones without what is damaged."""
    if not FLAGS.skip_bad_records:
        return paths
    found = damage.salvage(paths, os.path.join(FLAGS.output_dir, "salvaged"))
    print(
        f"--skip_bad_records: {found.dropped_records} damaged records were dropped, and the rest "
        f"of {found.dropped_rests} files.",
        file=sys.stderr,
    )
    return found.paths


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
