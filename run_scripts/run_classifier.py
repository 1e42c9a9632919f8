r"""Fine-tunes BERT to classify sentences or pairs, evaluates the model, and predicts labels.

    python run_scripts/run_classifier.py --task_name=MRPC --do_train=true --do_eval=true \
        --data_dir=$GLUE_DIR/MRPC --vocab_file=$BERT_DIR/vocab.txt \
        --bert_config_file=$BERT_DIR/bert_config.json --init_checkpoint=$BERT_DIR/bert_model.ckpt \
        --max_seq_length=128 --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3.0 \
        --output_dir=/tmp/mrpc_output/

Fine-tuning on your own train, dev and test files with named columns (.tsv, .csv or .jsonl):

    python run_scripts/run_classifier.py --task_name=custom --data_dir=/data/mine \
        --text_a_column=sentence --label_column=label ...

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl and eval_results.txt. With
--do_predict=true also writes test_results.tsv: one line per example of the test split, with the
probabilities of the labels, separated by tabs. The same command resumes an interrupted run.
"""

import os

from absl import flags

from bert_tf import command_line, files
from bert_tf.errors import InputError
from bert_tf.run_scripts import flags as shared
from bert_tf.tasks import TASKS
from bert_tf.tasks.classification import classification_tasks
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.task import Task
from bert_tf.training.config import RunPhases
from bert_tf.weights import FACTS_FILE

FLAGS = flags.FLAGS
flags.DEFINE_string("task_name", None, f"One of {', '.join(TASKS)}, or custom.")
flags.DEFINE_string("data_dir", None, "Folder with the train, dev and test files of the task.")
flags.DEFINE_string("output_dir", None, "Folder of this run.")
_CONFIG = FineTuningConfig()
flags.DEFINE_integer(
    "max_seq_length", _CONFIG.max_seq_length, "Longer texts or pairs are truncated to this length."
)
flags.DEFINE_bool("do_train", False, "Whether to train on the train split.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev split.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the test split.")
flags.DEFINE_integer(
    "predict_batch_size", _CONFIG.predict_batch_size, "Examples per batch in predictions."
)
flags.DEFINE_float("num_train_epochs", _CONFIG.num_train_epochs, "Passes over the train split.")
flags.DEFINE_float(
    "warmup_proportion", _CONFIG.warmup_proportion,
    "Share of the steps in which the learning rate rises.",
)  # fmt: skip
flags.DEFINE_string(
    "text_a_column", "sentence", "Task custom: column of the sentence, or of the first of a pair."
)
flags.DEFINE_string("text_b_column", None, "Task custom: column of the second sentence of a pair.")
flags.DEFINE_string("label_column", "label", "Task custom: column of the label.")
flags.DEFINE_list(
    "labels", None,
    "Task custom: the labels, in order. Default: the sorted labels of the train file.",
)  # fmt: skip
shared.define_model_flags(
    "The pretrained model: a checkpoint of google-research/bert, the Model Garden, Hugging Face or "
    "bert-tf. Default: random weights."
)
shared.define_training_flags()
flags.adopt_module_key_flags(shared)
flags.mark_flags_as_required(["task_name", "data_dir", "output_dir"])


def main() -> None:
    """Trains, evaluates and predicts."""
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError("Nothing to do: give --do_train, --do_eval or --do_predict =true.")
    from bert_tf.tasks.fine_tuning import TaskData, fine_tune
    from bert_tf.training.lifecycle.run_folder import RunFolder
    from bert_tf.training.strategy import make_strategy

    runtime = shared.runtime_config()
    make_strategy(runtime)
    model = shared.pretrained()
    config, tokenizer = model.config, model.tokenizer
    shared.check_length(FLAGS.max_seq_length, config)
    task = make_task()
    phases = RunPhases(FLAGS.do_train, FLAGS.do_eval, FLAGS.do_predict)
    fine_tuning = FineTuningConfig(**command_line.flag_values(FineTuningConfig))
    data = TaskData(task, FLAGS.data_dir, tokenizer, fine_tuning, phases)
    # An evaluation may use another max_seq_length than the training run.
    facts = {**task.facts, **({"max_seq_length": FLAGS.max_seq_length} if FLAGS.do_train else {})}
    fingerprint = {
        **task.facts,
        "examples": data.fingerprint(),
        "init_checkpoint": FLAGS.init_checkpoint,
        "max_seq_length": FLAGS.max_seq_length,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        "do_lower_case": tokenizer.do_lower_case,
    }
    metadata = shared.checkpoint_metadata(config, tokenizer, **facts)
    training = shared.training_config(*data.num_steps(FLAGS.train_batch_size), fingerprint)
    overwrite = FLAGS.do_train and FLAGS.overwrite
    results = fine_tune(
        phases,
        data,
        config,
        RunFolder(FLAGS.output_dir, metadata, training, overwrite),
        training,
        runtime,
        shared.initializer(),
    )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")


def make_task() -> Task:
    """Returns the task of --task_name.

    Raises:
        InputError: --task_name is unknown.
    """
    name = FLAGS.task_name.lower()
    if name in TASKS:
        return TASKS[name]
    if name != "custom":
        raise InputError(
            f"--task_name={FLAGS.task_name} is unknown. Give one of {', '.join(TASKS)}, custom."
        )
    columns = FLAGS.text_a_column, FLAGS.text_b_column, FLAGS.label_column
    labels = FLAGS.labels or _labels_of_trained_model()
    if labels is None:
        labels = classification_tasks.labels_of(FLAGS.data_dir, columns[0], columns[2])
    return classification_tasks.custom(*columns, labels)


def _labels_of_trained_model() -> list[str] | None:
    """Returns the labels of the newest checkpoint; None with --do_train or without a checkpoint."""
    from bert_tf.training.lifecycle.run_folder import RunFolder

    checkpoint = None if FLAGS.do_train else RunFolder(FLAGS.output_dir).latest_checkpoint()
    if checkpoint is None:
        return None
    return files.read_json(os.path.join(checkpoint, FACTS_FILE)).get("labels")


def run() -> None:
    """Entry point of the console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
