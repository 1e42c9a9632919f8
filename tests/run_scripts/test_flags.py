"""Programs read their flags into settings, without a change of flags or TensorFlow."""

import json

import pytest
from run_programs import run_python

# Reads the settings of a program for fine-tuning twice, and prints those that depend on
# other flags. The programs define the same flags, so each one needs a process.
READ = """
import importlib, json, sys
from absl import flags
from bert_tf.cli import fine_tuning
from bert_tf.training.training_config import RunPhases

main = importlib.import_module(sys.argv[1])
flags.FLAGS(sys.argv[1:])
given = flags.FLAGS.flag_values_dict()
phases = RunPhases(flags.FLAGS.do_train, flags.FLAGS.do_eval, flags.FLAGS.do_predict)
read = fine_tuning.run_settings
settings, again = (read(main._PROGRAM, phases) for _ in range(2))
assert settings == again and flags.FLAGS.flag_values_dict() == given
assert "tensorflow" not in sys.modules
head, cache = settings.head, settings.features
print(json.dumps([settings.training.learning_rate, head and head.feature_layers,
                  cache and cache.folder, settings.distillation is not None]))
"""
TRAIN, FEATURES = ["--do_train=true"], ["--do_train=true", "--approach=features"]
ALL = ("run_classifier", "run_ner", "run_squad", "run_swag")
CASES = [
    *((program, TRAIN, [5e-5, None, None, False]) for program in ALL),
    # A head with random weights on a frozen encoder needs a higher rate.
    *(
        (program, FEATURES, [1e-3, "concat_last_four", "out/features", False])
        for program in ALL[:2]
    ),
    (
        "run_ner",
        [
            *FEATURES,
            "--learning_rate=5e-5",
            "--feature_layers=last",
            "--feature_cache_dir=c",
        ],
        [5e-5, "last", "c", False],
    ),
    # Without training, the head and its encoder are those of the trained model.
    ("run_ner", ["--do_eval=true", "--approach=features"], [5e-5, None, None, False]),
    ("run_squad", ["--do_train=true", "--teacher=t"], [5e-5, None, None, True]),
    ("run_squad", ["--do_eval=true", "--teacher=t"], [5e-5, None, None, False]),
]


@pytest.mark.parametrize(("program", "given", "expected"), CASES)
def test_settings_of_a_run(program, given, expected, tmp_path):
    words = [f"bert_tf.run_scripts.{program}", "--output_dir=out", *given]
    needed = ["--task_name=MRPC"] if program == "run_classifier" else []
    done = run_python("-c", READ, *words, *needed, cwd=tmp_path)
    assert json.loads(done.stdout) == expected
