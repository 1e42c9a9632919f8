"""Commands and tables of the recipes, with a program that only records commands."""

import collections
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest
from json_files import read_json

ROOT = pathlib.Path(__file__).parent.parent.parent
RECIPES = ROOT / "run_scripts/recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.sh") if path.stem != "lib")
WITH_TABLE = [name for name in NAMES if name not in ("mosaic_bert", "pretrain_base")]
METRICS = ("accuracy", "f1", "matthews_correlation", "spearman", "exact_match", "exact")

# Takes the place of Python: writes each command to a file, and results into the output
# folder. In the table, the result of the command with the number n is n / 10.
RECORDER = """#!{python} -IS
import json, os, sys
argv = sys.argv[1:]
if argv[0].endswith("results_table.py"):
    os.execv({python!r}, [{python!r}, *argv])
log = os.environ["COMMANDS"]
number = len(open(log).readlines()) if os.path.exists(log) else 0
with open(log, "a") as file:
    file.write(json.dumps(argv) + "\\n")
words = [word for word in argv if word.startswith("--") and "=" in word]
flags = dict(word[2:].split("=", 1) for word in words)
is_share = "run_classifier.py" in " ".join(argv) or "run_swag.py" in argv[0]

def write(folder, change):
    os.makedirs(folder, exist_ok=True)
    value = (number + change) / (1000 if is_share else 10)
    lines = [f"eval_{{name}} = {{value}}\\n" for name in {metrics}]
    lines += [f"eval_accuracy_mismatched = {{1 - value}}\\n"]
    lines += [f"masked_lm_loss = {{value}}\\n"]
    with open(os.path.join(folder, "eval_results.txt"), "w") as file:
        file.writelines(lines)
    with open(os.path.join(folder, "test_results.txt"), "w") as file:
        file.write(f"test_f1 = {{value}}\\n")
    with open(os.path.join(folder, "squad_threshold.json"), "w") as file:
        json.dump({{"null_score_diff_threshold": -1.5}}, file)

if argv[0].endswith("sweep.py"):
    rates = flags["grid"].split("=")[1].split(",")
    seeds = int(flags["seeds"])
    for index, rate in enumerate(rates):
        for seed in range(seeds):
            # The second rate is best. The mean over the seeds is the middle seed's.
            change = -50 * (len(rates) > 1 and index != 1)
            change += 20 * (seed - (seeds - 1) / 2)
            name = f"learning_rate={{rate}}+seed={{seed}}"
            write(os.path.join(flags["output_dir"], "runs", name), change)
elif "output_dir" in flags:
    write(flags["output_dir"], 0)
"""
# The settings of the fine-tuning that the paper gives.
SETTINGS = {
    "table1_glue": "train_batch_size=32 num_train_epochs=3",
    "table2_squad": "train_batch_size=32 num_train_epochs=3 learning_rate=5e-5",
    "table3_squad2": "train_batch_size=48 num_train_epochs=2 learning_rate=5e-5 "
    "version_2_with_negative=true",
    "table4_swag": "train_batch_size=16 num_train_epochs=3 learning_rate=2e-5",
    "table7_ner": "document_context=true do_lower_case=false",
}


class Command:
    """A recorded command: its program and flags, and those inside a sweep."""

    def __init__(self, number, argv):
        self.number, self.path = number, argv[0].removeprefix(f"{ROOT}/")
        self.argv, self.inner = argv[1:], None
        if "--" in self.argv:
            end = self.argv.index("--")
            self.inner = f"run_scripts/{self.argv[end + 1]}", self.argv[end + 2 :]
            self.argv = self.argv[:end]
        words = self.argv + (self.inner[1] if self.inner else [])
        assert all(re.match(r"--\w+=", word) for word in words), argv
        self.flags = dict(word[2:].split("=", 1) for word in words)
        program = self.inner[0] if self.inner else self.path
        self.flags["program"] = pathlib.Path(program).name


class Recipe:
    """Runs a recipe with the recorder, in a folder whose name has blanks."""

    def __init__(self, folder):
        self.folder = folder / "a folder"
        self.out = self.folder / "out"
        for task in ("CoLA", "SST-2", "MRPC", "QQP", "STS-B", "MNLI", "QNLI", "RTE"):
            (self.folder / "glue" / task).mkdir(parents=True)
        for name in ("train-v1.1.json", "dev-v1.1.json"):
            (self.folder / name).touch()
        self.recorder = self.folder / "recorder"
        self.recorder.write_text(
            RECORDER.format(python=sys.executable, metrics=METRICS)
        )
        self.recorder.chmod(0o755)
        (self.folder / "vocab.txt").write_text("a\nb\nc")

    def run(self, name, *flags, **settings):
        folder = str(self.folder)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHON": str(self.recorder),
            "OUT": f"{folder}/out",
            "COMMANDS": f"{folder}/commands",
            "TEXT": "corpus",
            "VOCAB": f"{folder}/vocab.txt",
            "CONFIG": "config.json",
            "MODEL": "model",
            "GLUE": f"{folder}/glue",
            "SQUAD": folder,
            "SWAG": folder,
            "CONLL": folder,
            **settings,
        }
        environment = {
            key: value for key, value in environment.items() if value is not None
        }
        command = ["bash", str(RECIPES / f"{name}.sh"), *flags]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    def commands(self):
        path = self.folder / "commands"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Command(number, json.loads(line)) for number, line in enumerate(lines)]

    def table(self):
        lines = (self.out / "table.tsv").read_text().splitlines()
        return [tuple(line.split("\t")) for line in lines]


@pytest.fixture
def recipe(tmp_path):
    return Recipe(tmp_path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that runs a recipe once, with further flags, for all tests."""

    @functools.cache
    def run(name):
        recipe = Recipe(tmp_path_factory.mktemp(name))
        done = recipe.run(name, "--log_steps=7", "--tpu_name=a b")
        assert done.returncode == 0 and not done.stderr, done
        return recipe, recipe.commands(), done.stdout

    return run


@functools.cache
def defined_flags(path):
    """Returns the flags that a program lists in its help."""
    shown = subprocess.run(
        [sys.executable, ROOT / path, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^  --(\w+)=", shown.stdout, re.M))


def test_every_table_of_the_paper_has_a_recipe():
    assert [name[:6] for name in WITH_TABLE] == [
        f"table{number}" for number in range(1, 9)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_program_has_the_flags(recorded, name):
    check_flags(recorded(name)[1])


@pytest.mark.parametrize("name", WITH_TABLE)
def test_every_row_has_the_result_of_another_run(recorded, name):
    recipe, commands, printed = recorded(name)
    header, *rows = recipe.table()
    assert header == ("label", "metric", "paper", "result", "runs")
    shown = printed.splitlines()
    assert shown[1].startswith(f"Table {name[5]}, ")
    for line, row in zip(shown[4:], rows, strict=True):
        assert line.split() == " ".join(row).split()
    if name == "table1_glue":  # the last row is the mean of the others
        results = [float(row[3]) for row in rows]
        assert results.pop() == pytest.approx(sum(results) / len(results), abs=0.051)
        del rows[-1]
    possible = {
        "MNLI-mm": {f"{100 - each.number / 10:.1f}" for each in commands},
        "LM perplexity": {f"{math.exp(each.number / 10):.2f}" for each in commands},
    }
    groups = collections.defaultdict(list)
    for label, metric, _, result, _ in rows:
        column = label if label == "MNLI-mm" else metric
        assert result in possible.get(
            column, {f"{each.number / 10:.1f}" for each in commands}
        )
        # These are second metrics of a run, or of the pretraining.
        groups[column if column in (*possible, "EM", "test F1") else "main"].append(
            result
        )
    assert all(len(set(results)) == len(results) for results in groups.values())
    results = [float(result) for result in groups["main"]]
    if name != "table1_glue":  # whose rows have the order of the paper
        assert results == sorted(results)


def test_squad_2_predicts_with_the_best_threshold(recorded):
    recipe, commands, _ = recorded("table3_squad2")
    last = commands[-1]
    assert (last.flags["do_predict"], last.flags["null_score_diff_threshold"]) == (
        "true",
        "-1.5",
    )
    assert [row[3] for row in recipe.table()[1:]] == [f"{last.number / 10:.1f}"] * 2


def assert_settings(flags, text):
    """Asserts that flags have the values of a text such as "seed=1 do_train=true"."""
    assert dict(pair.split("=") for pair in text.split()).items() <= flags.items()


def check_flags(commands):
    """Checks that each program exists and has all flags."""
    for command in commands:
        parts = [
            (command.path, command.argv),
            *([command.inner] if command.inner else []),
        ]
        for path, argv in parts:
            names = [word[2:].split("=")[0] for word in argv]
            assert not [
                n for n, count in collections.Counter(names).items() if count > 1
            ], argv
            assert set(names) <= defined_flags(path), path


@pytest.mark.parametrize("name", NAMES)
def test_further_flags_are_those_of_the_main_stage(recorded, name):
    _, commands, _ = recorded(name)
    pretrains = any(each.flags["program"] == "run_pretraining.py" for each in commands)
    for each in commands:
        # The prediction with a threshold has the settings of the answers too.
        is_main = "do_train" in each.flags or "null_score_diff_threshold" in each.flags
        is_main &= not pretrains or each.flags["program"] == "run_pretraining.py"
        assert (each.flags.get("log_steps") == "7") == is_main
        assert (each.flags.get("tpu_name") == "a b") == is_main


@pytest.mark.parametrize("name", SETTINGS)
def test_the_fine_tuning_has_the_settings_of_the_paper(recorded, name):
    runs = [each.flags for each in recorded(name)[1] if "do_train" in each.flags]
    assert runs
    for flags in runs:
        assert_settings(flags, SETTINGS[name])
        assert name != "table1_glue" or flags["grid"] == (
            "learning_rate=5e-5,4e-5,3e-5,2e-5"
        )


def test_the_models_of_a_table_differ_as_in_the_paper(recorded):
    def values(name, *names):
        found = [each.flags for each in recorded(name)[1] if names[0] in each.flags]
        return {" ".join(flags[each] for each in names) for flags in found}

    assert values("table5_ablations", "objective") == {"mlm_nsp", "mlm", "causal"}
    assert values("table5_ablations", "head") == {"bilstm"}
    sizes = set()
    for path in values("table6_size", "bert_config_file"):
        config = read_json(path)
        names = "num_hidden_layers", "hidden_size", "num_attention_heads"
        sizes.add(" ".join(str(config[name]) for name in names))
        assert config["intermediate_size"] == 4 * config["hidden_size"]
    assert sizes == {
        "3 768 12", "6 768 3", "6 768 12", "12 768 12", "12 1024 16", "24 1024 16",
    }  # fmt: skip
    layers = (
        "embeddings second_to_last last weighted_sum_last_four concat_last_four "
        "weighted_sum_all"
    )
    assert values("table7_ner", "feature_layers") == {*layers.split()}
    assert values("table8_masking", "mask_token_prob", "random_token_prob") == {
        "0.8 0.1", "1.0 0.0", "0.8 0.2", "0.8 0.0", "0.0 0.8", "0.0 1.0",
    }  # fmt: skip


def test_mosaic_bert_has_the_settings_of_its_source(recorded):
    records, training = (each.flags for each in recorded("mosaic_bert")[1])
    assert_settings(records, "max_seq_length=128 objective=mlm masked_lm_prob=0.15")
    assert_settings(
        training,
        "max_seq_length=128 train_batch_size=4096 num_train_steps=70000 "
        "num_warmup_steps=4200 learning_rate=5e-4 adam_beta_1=0.9 adam_beta_2=0.98 "
        "objective=mlm",
    )
    # The weight decay of a step at the peak is 1e-5.
    assert float(training["weight_decay_rate"]) * 5e-4 == pytest.approx(1e-5)


def test_the_pretraining_has_the_settings_of_the_paper(recorded):
    short, long, first, second = (each.flags for each in recorded("pretrain_base")[1])
    records = "max_seq_length={} max_predictions_per_seq={} dupe_factor=10"
    assert_settings(short, records.format(128, 20))
    assert_settings(long, records.format(512, 77))
    assert_settings(
        first,
        "max_seq_length=128 train_batch_size=256 num_train_steps=1000000 "
        "learning_rate=1e-4 stop_at_step=900000 num_warmup_steps=10000",
    )
    assert_settings(
        second,
        "max_seq_length=512 train_batch_size=256 num_train_steps=100000 "
        "learning_rate=1e-5",
    )
    assert second["init_checkpoint"] == first["output_dir"]


def test_the_rows_of_runs_that_are_left_out_have_no_result(recipe):
    assert recipe.run("table5_ablations", TASKS="MRPC", SQUAD=None).returncode == 0
    results = [row[3] for row in recipe.table()[1:]]
    assert [result == "-" for result in results] == [True, True, False, True, True] * 4


def test_results_that_are_not_finite_are_not_the_best(tmp_path):
    for seed, value in ((1, "nan"), (2, "0.5"), (3, "0.4")):
        run = tmp_path / f"runs/learning_rate=1+seed={seed}"
        run.mkdir(parents=True)
        (run / "eval_results.txt").write_text(f"eval_spearman = {value}\n")
    command = [
        sys.executable,
        RECIPES / "results_table.py",
        "best",
        tmp_path,
        "eval_spearman",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.strip().endswith("seed=2")


def test_no_average_without_all_tasks(recipe):
    assert recipe.run("table1_glue", TASKS="MRPC RTE").returncode == 0
    assert [row[3] != "-" for row in recipe.table()[1:]] == [False] * 7 + [
        True,
        True,
        False,
    ]


def test_the_best_runs_predict_the_test_files(recipe):
    for name in ("MNLI/test_matched.tsv", "RTE/test.tsv"):
        (recipe.folder / "glue" / name).touch()
    assert recipe.run("table1_glue", TASKS="MNLI QNLI RTE").returncode == 0
    commands = recipe.commands()
    check_flags(commands)
    predicting = [each.flags for each in commands if "do_predict" in each.flags]
    assert [flags["task_name"] for flags in predicting] == ["MNLI", "RTE"]
    for flags in predicting:
        best = f"{recipe.out}/{flags['task_name']}/runs/learning_rate=4e-5+seed=0"
        assert flags["init_checkpoint"] == best and "do_train" not in flags
    (collecting,) = (
        each.flags for each in commands if "make_glue" in each.flags["program"]
    )
    folders = [flags["output_dir"] for flags in predicting]
    assert collecting["input_dirs"].split(",") == folders


@pytest.mark.parametrize(
    ("name", "missing"), [("table1_glue", "GLUE"), ("table6_size", "VOCAB")]
)
def test_a_missing_setting_is_reported_before_the_first_command(recipe, name, missing):
    done = recipe.run(name, **{missing: None})
    assert done.returncode == 2 and not recipe.commands()
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"error: the environment variable {missing} is not set. Give "
    )


def test_missing_data_are_reported_before_the_first_command(recipe):
    done = recipe.run("table1_glue", GLUE="/missing")
    assert done.returncode == 2 and not recipe.commands()
    assert re.fullmatch(r"error: /missing/\S+ does not exist.\n", done.stderr)


def test_a_wrong_size_is_refused(recipe):
    done = recipe.run("table2_squad", SIZE="tiny")
    assert (
        done.returncode == 2
        and done.stderr == "error: SIZE=tiny is not base or large.\n"
    )


def test_a_failing_program_ends_the_recipe_with_its_code(recipe):
    recipe.recorder.write_text("#!/bin/sh\nexit 7\n")
    assert recipe.run("table5_ablations").returncode == 7


def head_of(name):
    return (RECIPES / f"{name}.sh").read_text("utf-8").split("\nset -euo pipefail\n")[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_a_recipe_describes_it(recorded, name):
    for word in ("Hardware", "Time", "Expected", f"bash run_scripts/recipes/{name}.sh"):
        assert word in head_of(name)
    for row in recorded(name)[0].table()[1:] if name in WITH_TABLE else ():
        assert re.search(rf"\b{re.escape(row[2])}\b", head_of(name)), row


@pytest.mark.parametrize("name", ["table2_squad", "table4_swag", "table7_ner"])
def test_the_head_has_the_figures_of_bert_large(recorded, recipe, name):
    assert recipe.run(name, SIZE="large", FEATURES="last").returncode == 0
    figures = [row[2] for row in recipe.table()[1:] if row[2] != "-"]
    assert figures and not set(figures) & {row[2] for row in recorded(name)[0].table()}
    assert all(
        re.search(rf"\b{re.escape(figure)}\b", head_of(name)) for figure in figures
    )


def test_the_figures_of_bert_large_on_glue(recipe):
    assert recipe.run("table1_glue", SIZE="large").returncode == 0
    figures = [row[2] for row in recipe.table()[1:]]
    expected = "86.7 85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 82.1"
    assert figures == expected.split()
