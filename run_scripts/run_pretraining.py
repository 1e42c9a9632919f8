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

import contextlib
import dataclasses
import os
import sys
from typing import Any

from absl import flags

from bert_tf.errors import InputError
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.pretraining.pretraining_config import (
    OBJECTIVES,
    PretrainingModel,
    PretrainingRecords,
)
from bert_tf.program import command_line, config_flags, startup
from bert_tf.run_scripts import flags as shared
from bert_tf.training.config import RunPhases, TrainingConfig

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Comma list of globs: the records to train on.")
flags.DEFINE_string(
    "eval_input_file",
    None,
    "Comma list of globs: held-out records to evaluate on, such as those that "
    "create_pretraining_data.py --eval_fraction=0.05 writes. Default: --input_file, as "
    "in google-research/bert.",
)
flags.DEFINE_string("output_dir", None, "Folder of this run.")
_RECORDED = "Default: that in the manifest next to the records, else"
config_flags.define(
    PretrainingRecords,
    without=("eval_batch_size", "masks"),
    defaults={"max_seq_length": None, "max_predictions_per_seq": None},
    texts={
        "max_seq_length": "Length of the sequences in the records. "
        f"{_RECORDED} {PretrainingRecords.max_seq_length}.",
        "max_predictions_per_seq": "Number of masked positions per sequence in the records. "
        f"{_RECORDED} {PretrainingRecords.max_predictions_per_seq}.",
    },
)
_FOR_UNMASKED = "For records of --masking=dynamic. "
config_flags.define(
    MaskingConfig,
    without=("max_predictions_per_seq",),
    texts={
        name: _FOR_UNMASKED + text
        for name, text in config_flags.descriptions(MaskingConfig).items()
    },
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
flags.DEFINE_enum(
    "objective",
    PretrainingModel.objective,
    OBJECTIVES,
    "mlm_nsp: the objective of BERT. mlm: without next-sentence prediction. causal: "
    "left-to-right language model with causal attention; create its records with "
    "--objective=causal.",
)
flags.DEFINE_bool(
    "skip_bad_records",
    False,
    "Check all records first; replace damaged files by copies in --output_dir without "
    "the damaged records. If the length field of a record is damaged, the copy ends "
    "before it.",
)
shared.define_model_flags(
    "Initial weights: a checkpoint of google-research/bert, the Model Garden, Hugging "
    "Face or bert-tf. Default: random weights."
)
shared.define_training_flags()
flags.adopt_module_key_flags(shared)
flags.mark_flags_as_required(["output_dir"])


def main() -> None:
    """Trains and evaluates."""
    _check_phases()
    shared.check_output_dir(("input_file", "eval_input_file"))
    runtime = shared.runtime_config()
    training = shared.training_config(num_warmup_steps=_num_warmup_steps())
    given = command_line.flag_values(PretrainingRecords)
    given = {name: value for name, value in given.items() if value is not None}
    PretrainingRecords((), (), **given)  # checks the flags before the import
    limit = given.get(
        "max_predictions_per_seq", PretrainingRecords.max_predictions_per_seq
    )
    masking = config_flags.build(MaskingConfig, max_predictions_per_seq=limit)
    startup.import_tensorflow()
    from bert_tf.masking.row_format import Vocabulary
    from bert_tf.pretraining import record_checks
    from bert_tf.pretraining.pretrain import pretrain
    from bert_tf.training.lifecycle.run_folder import CheckpointMetadata, RunFolder
    from bert_tf.training.strategy import make_strategy, worker_index

    strategy = make_strategy(runtime)
    pretrained = shared.run_model().pretrained
    config = pretrained.config
    if FLAGS.objective == "causal":
        config = dataclasses.replace(config, attention="causal")
    model = PretrainingModel(config, FLAGS.objective)
    metadata, vocabulary = CheckpointMetadata(config.to_dict()), None
    if pretrained.has_vocabulary:
        tokenizer = pretrained.tokenizer
        entries, casing = tokenizer.vocabulary, tokenizer.do_lower_case
        metadata = CheckpointMetadata(config.to_dict(), entries, casing)
        vocabulary = Vocabulary.of(tokenizer)
    records = record_checks.checked_records(
        FLAGS.input_file,
        FLAGS.eval_input_file,
        given,
        model,
        masking,
        vocabulary,
        metadata.do_lower_case,
    )
    if records.masks and (
        warning := records.masks.config.warning(records.max_seq_length)
    ):
        print(warning, file=sys.stderr)
    fingerprint = {
        **_fingerprint(records),
        "records": record_checks.fingerprint(records.train_files),
        "vocabulary_sha256": vocabulary.sha256 if vocabulary else None,
        "do_lower_case": metadata.do_lower_case,
    }
    training = dataclasses.replace(training, data=fingerprint)
    folder = RunFolder(FLAGS.output_dir, metadata, FLAGS.do_train and FLAGS.overwrite)
    folder.check_same_run(training if FLAGS.do_train else None)
    with contextlib.ExitStack() as stack:
        if FLAGS.skip_bad_records and worker_index(strategy) == 0:
            stack.enter_context(folder.locked())
        results = pretrain(
            RunPhases(FLAGS.do_train, FLAGS.do_eval),
            _without_damage(records),
            model,
            folder,
            training,
            runtime,
            _assign_initial_weights if FLAGS.init_checkpoint else None,
        )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")


def _check_phases() -> None:
    """Raises `InputError` if there is nothing to do, or if records for it are not given."""
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError(
            "Nothing to do: give --do_train=true, --do_eval=true, or both."
        )
    if not FLAGS.input_file and (FLAGS.do_train or not FLAGS.eval_input_file):
        raise InputError("--input_file is required. See --help.")


def _fingerprint(records: PretrainingRecords) -> dict[str, Any]:
    """Returns the flags that identify the examples and initial weights of a run."""
    masks = (
        {"masking": dataclasses.asdict(records.masks.config)} if records.masks else {}
    )
    return {
        **masks,
        "init_checkpoint": shared.run_model().initial_weights,
        "objective": FLAGS.objective,
        "max_seq_length": records.max_seq_length,
        "max_predictions_per_seq": records.max_predictions_per_seq,
        "shuffle_buffer_size": FLAGS.shuffle_buffer_size,
    }


def _assign_initial_weights(objective: Any) -> None:
    shared.run_model().pretrained.assign(objective.model)


def _num_warmup_steps() -> int:
    """Returns --num_warmup_steps.

    The default is that of google-research/bert, 10,000, and less for runs that have
    fewer steps than the default of --num_train_steps, 100,000.
    """
    if FLAGS.num_warmup_steps is not None:
        return FLAGS.num_warmup_steps
    return min(10_000, FLAGS.num_train_steps // 10)


def _without_damage(records: PretrainingRecords) -> PretrainingRecords:
    """Returns the records.

    With --skip_bad_records, a repaired copy replaces each damaged file.
    """
    if not FLAGS.skip_bad_records:
        return records
    from bert_tf.pretraining.damage import salvage

    folder = os.path.join(FLAGS.output_dir, "salvaged")
    train_files, eval_files = records.train_files, records.eval_files
    return dataclasses.replace(
        records,
        train_files=salvage(train_files, folder),
        eval_files=salvage(eval_files, folder),
    )


def run() -> None:
    """Entry point of the console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
