r"""Fine-tunes BERT to answer questions about a text (SQuAD), and predicts answers.

    python run_scripts/run_squad.py \
        --do_train=true --train_file=$SQUAD_DIR/train-v1.1.json \
        --do_predict=true --predict_file=$SQUAD_DIR/dev-v1.1.json \
        --vocab_file=$BERT_DIR/vocab.txt --bert_config_file=$BERT_DIR/bert_config.json \
        --init_checkpoint=$BERT_DIR/bert_model.ckpt --train_batch_size=12 \
        --learning_rate=3e-5 \
        --num_train_epochs=2.0 --max_seq_length=384 --doc_stride=128 \
        --output_dir=/tmp/squad_base/

SQuAD 2.0, in which questions may have no answer:

    python run_scripts/run_squad.py --version_2_with_negative=true \
        --train_file=$SQUAD_DIR/train-v2.0.json \
        --predict_file=$SQUAD_DIR/dev-v2.0.json ...

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl,
predictions.json, nbest_predictions.json and, for SQuAD 2.0, null_odds.json. If the file
of --predict_file contains answers, the official metrics are computed and written to
eval_results.txt, and for SQuAD 2.0 the best threshold to squad_threshold.json.
--do_eval=true does the same as --do_predict=true, needs answers, and with --eval_steps
evaluates during training too. The same command resumes an interrupted run.

An ensemble: the mean probability of each answer over several runs.

    python run_scripts/run_squad.py --predict_file=$SQUAD_DIR/dev-v1.1.json \
        --average_nbest=/tmp/a/nbest_predictions.json,/tmp/b/nbest_predictions.json \
        --output_dir=/tmp/squad_ensemble/
"""

from absl import flags

from bert_tf.cli import fine_tuning, shared_flags, trained_run
from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.task import DataLocation, Task
from bert_tf.training.training_config import RunPhases

FLAGS = flags.FLAGS
# The command that predicts the answers to other questions.
_NEXT_STEP = (
    "python run_scripts/run_squad.py --do_predict=true --init_checkpoint={} "
    "--predict_file=questions.json --output_dir=answers"
)
config_flags.define(
    FineTuningConfig,
    ("max_seq_length",),
    defaults={"max_seq_length": 384},
    texts={"max_seq_length": "Number of tokens of a question with a window."},
)
config_flags.define(WindowSettings)
config_flags.define(AnswerSettings)
flags.DEFINE_bool(
    "verbose_logging", False, "Flag of google-research/bert; has no effect."
)
config_flags.define_path(
    "average_nbest",
    "Files nbest_predictions.json of several runs: writes the answers with the highest "
    "mean probability to --output_dir, and runs no model.",
    define_flag=flags.DEFINE_list,
)
_PROGRAM = fine_tuning.ProgramFlags(
    splits=False,
    teacher=True,
    head=True,
    of_export=("max_seq_length", "null_score_diff_threshold"),
)
fine_tuning.define_flags(_PROGRAM)


def main() -> None:
    """Trains, evaluates and predicts, or averages earlier predictions."""
    if FLAGS.average_nbest:
        _average()
        return
    # One file is both the dev and the test split. Its metrics and threshold are computed
    # when it is predicted.
    predicts = FLAGS.do_predict or FLAGS.do_eval
    phases = RunPhases(FLAGS.do_train, FLAGS.do_eval, predicts)
    fine_tuning.run_task(_PROGRAM, make_task, _NEXT_STEP, phases)


def make_task(_: DataLocation) -> Task:
    """Returns the task; without training, the trained model gives the defaults of flags."""
    from bert_tf.tasks.squad.squad_task import SquadTask

    windows = WindowSettings(
        **trained_run.values_or_trained("doc_stride", "max_query_length")
    )
    trained = trained_run.values_or_trained(
        "version_2_with_negative", "padding_as_released", "f1_by"
    )
    return SquadTask(
        windows=windows, answers=config_flags.build(AnswerSettings, **trained)
    )


def _average() -> None:
    """Writes the answers of an ensemble, unless the folder contains a run."""
    shared_flags.check_output_dir(())
    from bert_tf.tasks.squad import ensemble
    from bert_tf.training.lifecycle.run_folder import RunFolder

    if FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.check_only:
        raise InputError(
            "--average_nbest runs no model: give it without --do_train, --do_eval, "
            "--do_predict and --check_only."
        )

    # The predictions of a run are not replaced by those of an ensemble.
    folder = RunFolder(FLAGS.output_dir, outputs=ensemble.OUTPUTS)
    if folder.checkpoints():
        raise InputError(
            f"{folder.path} contains a run, whose predictions would be replaced. Give "
            "another --output_dir."
        )
    folder.check_same_run()

    with folder.locked():
        results = ensemble.average(
            FLAGS.average_nbest,
            folder.path,
            settings=config_flags.build(AnswerSettings),
            data_file=FLAGS.predict_file,
            limit=FLAGS.max_eval_examples,
        )
    for name, value in results.items():
        print(f"{name} = {value}")


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
