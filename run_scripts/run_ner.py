r"""Fine-tunes BERT to find named entities, evaluates the model, and tags files.

    python run_scripts/run_ner.py --do_train=true --do_eval=true --do_predict=true \
        --data_dir=$CONLL_DIR --vocab_file=$BERT_DIR/vocab.txt --do_lower_case=false \
        --bert_config_file=$BERT_DIR/bert_config.json \
        --init_checkpoint=$BERT_DIR/bert_model.ckpt \
        --max_seq_length=128 --train_batch_size=32 --learning_rate=5e-5 \
        --num_train_epochs=3.0 \
        --output_dir=/tmp/ner_output/

The files train, dev (also valid or testa) and test (also testb) have one word on each
line, with its tag in another column (.conll, .txt, .bio, .iob, .tsv, .csv), or one
sentence on each line (.jsonl, .json): {"tokens": [...], "tags": [...]} or {"text":
"...", "entities": [{"start": 0, "end": 3, "label": "PER"}]}. Tags in IOB1, IOB2, IOBES
and BILOU and without prefixes are read. A file to predict needs no tags. With the
context of the document, as in the paper:

    python run_scripts/run_ner.py --document_context=true --max_seq_length=512 ...

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl,
eval_results.txt (entity F1 as conlleval computes it), and eval_report.txt with the
scores of each type. With --do_predict=true also writes predictions.conll, the lines of
the file with one more column, or predictions.jsonl; if the file has tags, also
test_results.txt and test_report.txt. The same command resumes an interrupted run.
"""

from absl import flags

from bert_tf.cli import fine_tuning, trained_run
from bert_tf.program import command_line, config_flags
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.ner.conll import Columns
from bert_tf.tasks.ner.schemes import DETECT, SCHEMES
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DataLocation, Task

FLAGS = flags.FLAGS
# The command that tags another file.
_NEXT_STEP = (
    "python run_scripts/run_ner.py --do_predict=true --init_checkpoint={} "
    "--predict_file=sentences.conll --output_dir=tagged"
)
config_flags.define(
    FineTuningConfig,
    ("max_seq_length", "class_weights"),
    texts={
        "max_seq_length": "Longer sentences are split into windows of this number of "
        "tokens."
    },
)
config_flags.define(Columns)
config_flags.define(TableFormat, ("encoding",))
flags.DEFINE_enum(
    "input_scheme",
    DETECT,
    [DETECT, *SCHEMES],
    "Scheme of the tags in the files. detect: the one that the fewest tags violate, "
    "for each file.",
)
flags.DEFINE_enum(
    "scheme",
    "iob2",
    SCHEMES,
    "Scheme of the tags that the model learns; entities are converted.",
)
flags.DEFINE_bool(
    "document_context",
    False,
    "Fill each sequence up to --max_seq_length with neighboring sentences of the same "
    "document. Documents start at -DOCSTART- lines; a line of a .jsonl file is a "
    "document of its own. Slower than without, because all sequences are long.",
)
_PROGRAM = fine_tuning.ProgramFlags(teacher=True, head=True, features=True)
fine_tuning.define_flags(_PROGRAM)


def main() -> None:
    """Trains, evaluates and predicts, as --do_train, --do_eval and --do_predict say."""
    fine_tuning.run_task(_PROGRAM, make_task, _NEXT_STEP)


def make_task(_: DataLocation) -> Task:
    """Returns the task; without training, the trained model gives --document_context."""
    from bert_tf.tasks.ner.ner_task import NerTask

    return NerTask(
        scheme=FLAGS.scheme,
        columns=config_flags.build(Columns),
        input_scheme=FLAGS.input_scheme,
        **trained_run.values_or_trained("document_context"),
    )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
