"""The commands and the tables of the recipes, with a program that only records its commands."""

import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
RECIPES = ROOT / "run_scripts/recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.sh") if path.stem != "lib")
WITHOUT_TABLE = ("mosaic_bert", "pretrain_base")

# Takes the place of Python: writes each command to a file, and results into the output folder.
# The values in the results depend on the number of the command.
RECORDER = """#!{python} -IS
import json, os, sys
argv = sys.argv[1:]
if argv[0].endswith("table.py"):
    os.execv({python!r}, [{python!r}, *argv])
log = os.environ["COMMANDS"]
number = len(open(log).readlines()) if os.path.exists(log) else 0
with open(log, "a") as file:
    file.write(json.dumps(argv) + "\\n")
flags = dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)

def write(folder, change):
    os.makedirs(folder, exist_ok=True)
    n = number + change
    if "run_classifier.py" in " ".join(argv) or "run_swag.py" in argv[0]:
        metrics = {{"accuracy": (500 + n) / 1000, "accuracy_mismatched": (600 - n) / 1000,
                   "f1": (700 + n) / 1000, "matthews_correlation": (800 + n) / 1000,
                   "spearman": (900 + n) / 1000}}
    else:
        metrics = {{"f1": 70 + n / 10, "exact_match": 40 + n / 10, "exact": 30 + n / 10,
                   "best_f1_thresh": 0.0}}
        with open(os.path.join(folder, "squad_threshold.json"), "w") as file:
            json.dump({{"f1": 50.0, "null_score_diff_threshold": -1.5}}, file)
    lines = [f"eval_{{name}} = {{value}}" for name, value in metrics.items()]
    lines.append(f"masked_lm_loss = {{1 + n / 100}}")
    with open(os.path.join(folder, "eval_results.txt"), "w") as file:
        file.write("\\n".join(lines) + "\\n")
    if "run_ner.py" in argv:
        with open(os.path.join(folder, "test_results.txt"), "w") as file:
            file.write(f"test_f1 = {{10 + n / 10}}\\n")

if argv[0].endswith("sweep.py"):
    rates = flags["grid"].split("=")[1].split(",")
    seeds = int(flags["seeds"])
    for index, rate in enumerate(rates):
        for seed in range(seeds):
            # The second rate is best. The mean over the seeds is that of the middle seed.
            change = -50 * (len(rates) > 1 and index != 1) + 20 * (seed - (seeds - 1) / 2)
            name = f"learning_rate={{rate}}+seed={{seed}}"
            write(os.path.join(flags["output_dir"], "runs", name), change)
elif "output_dir" in flags:
    write(flags["output_dir"], 0)
"""
# The percentages that the recorder writes for the command 0, and the change from one to the next.
ACCURACY, MISMATCHED, PAIR_F1, MATTHEWS, SPEARMAN = (50, 1), (60, -1), (70, 1), (80, 1), (90, 1)
F1, EXACT_MATCH, EXACT, TEST_F1 = (70, 1), (40, 1), (30, 1), (10, 1)


def glue_rows():
    rows = [
        ("MNLI-m", "accuracy", "84.6", ACCURACY, "MNLI"),
        ("MNLI-mm", "accuracy_mismatched", "83.4", MISMATCHED, "MNLI"),
        ("QQP", "f1", "71.2", PAIR_F1, "QQP"),
        ("QNLI", "accuracy", "90.5", ACCURACY, "QNLI"),
        ("SST-2", "accuracy", "93.5", ACCURACY, "SST-2"),
        ("CoLA", "matthews_correlation", "52.1", MATTHEWS, "CoLA"),
        ("STS-B", "spearman", "85.8", SPEARMAN, "STS-B"),
        ("MRPC", "f1", "88.9", PAIR_F1, "MRPC"),
        ("RTE", "accuracy", "66.4", ACCURACY, "RTE"),
    ]
    rows = [(*row[:4], {"task_name": row[4], "do_train": "true"}) for row in rows]
    return [*rows, ("Average", "", "79.6", None, {})]


def ablation_rows():
    figures = {
        "BERT-Base": ("mlm_nsp", "84.4 88.4 86.7 92.7 88.5"),
        "No NSP": ("mlm", "83.9 84.9 86.5 92.6 87.9"),
        "LTR & No NSP": ("causal", "82.1 84.3 77.5 92.1 77.8"),
        "+ BiLSTM": ("causal", "82.1 84.1 75.7 91.6 84.9"),
    }
    for label, (objective, papers) in figures.items():
        head = "bilstm" if label == "+ BiLSTM" else None
        for metric, paper in zip(
            ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"), papers.split(), strict=True
        ):
            run = {"objective": objective, "head": head}
            if metric == "SQuAD F1":
                yield label, metric, paper, F1, {**run, "program": "run_squad.py"}
            else:
                task = metric.removesuffix("-m")
                yield label, metric, paper, ACCURACY, {**run, "task_name": task}


def size_rows():
    figures = {
        (3, 768, 12): "5.84 77.9 79.8 88.4", (6, 768, 3): "5.24 80.6 82.2 90.7",
        (6, 768, 12): "4.68 81.9 84.8 91.3", (12, 768, 12): "3.99 84.4 86.7 92.9",
        (12, 1024, 16): "3.54 85.7 86.9 93.3", (24, 1024, 16): "3.23 86.6 87.8 93.7",
    }  # fmt: skip
    for (layers, hidden, heads), papers in figures.items():
        label = f"L={layers} H={hidden} A={heads}"
        run = {
            "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
        }  # fmt: skip
        perplexity, *accuracies = papers.split()
        last = {"program": "run_pretraining.py", "max_seq_length": "512"}
        yield label, "LM perplexity", perplexity, "perplexity", {**run, **last}
        for metric, paper in zip(("MNLI-m", "MRPC", "SST-2"), accuracies, strict=True):
            task = {"task_name": metric.removesuffix("-m"), "seeds": "5"}
            yield label, metric, paper, ACCURACY, {**run, **task}


def ner_rows():
    fine_tuning = {"approach": None, "seeds": "5"}
    yield "Fine-tuning", "dev F1", "96.4", F1, fine_tuning
    yield "Fine-tuning", "test F1", "92.4", TEST_F1, fine_tuning
    for label, layers, paper in (
        ("Embeddings", "embeddings", "91.0"),
        ("Second-to-last hidden layer", "second_to_last", "95.6"),
        ("Last hidden layer", "last", "94.9"),
        ("Weighted sum of last four", "weighted_sum_last_four", "95.9"),
        ("Concatenation of last four", "concat_last_four", "96.1"),
        ("Weighted sum of all layers", "weighted_sum_all", "95.5"),
    ):
        run = {"approach": "features", "head": "bilstm", "feature_layers": layers, "seeds": "5"}
        yield label, "dev F1", paper, F1, run


def masking_rows():
    figures = {
        "80-10-10": "84.2 95.4 94.9", "100-0-0": "84.3 94.9 94.0", "80-0-20": "84.1 95.2 94.6",
        "80-20-0": "84.4 95.2 94.7", "0-20-80": "83.7 94.8 94.6", "0-0-100": "83.6 94.9 94.6",
    }  # fmt: skip
    for label, papers in figures.items():
        mask, _, random = (str(int(share) / 100) for share in label.split("-"))
        data = {"mask_token_prob": mask, "random_token_prob": random}
        mnli, tuned, fixed = papers.split()
        features = {"head": "bilstm", "feature_layers": "concat_last_four"}
        ner = {**data, "program": "run_ner.py", "document_context": "true"}
        yield label, "MNLI accuracy", mnli, ACCURACY, {**data, "task_name": "MNLI"}
        yield label, "NER F1, fine-tuned", tuned, F1, {**ner, "approach": None}
        yield label, "NER F1, features", fixed, F1, {**ner, "approach": "features", **features}


_THRESHOLD = {"do_predict": "true", "null_score_diff_threshold": "-1.5"}
# For each recipe, each row: label, metric, the figure of the paper, the value, and flags of the
# run that gives the result, or of the pretraining and the data of its model.
TABLES = {
    **{name: [] for name in WITHOUT_TABLE},
    "table1_glue": glue_rows(),
    "table2_squad": [
        ("SQuAD 1.1 dev", "EM", "80.8", EXACT_MATCH, {"do_train": "true"}),
        ("SQuAD 1.1 dev", "F1", "88.5", F1, {"do_train": "true"}),
    ],
    "table3_squad2": [
        ("SQuAD 2.0 dev", "EM", "78.7", EXACT, _THRESHOLD),
        ("SQuAD 2.0 dev", "F1", "81.9", F1, _THRESHOLD),
    ],
    "table4_swag": [("SWAG dev", "accuracy", "81.6", ACCURACY, {"do_train": "true"})],
    "table5_ablations": list(ablation_rows()),
    "table6_size": list(size_rows()),
    "table7_ner": list(ner_rows()),
    "table8_masking": list(masking_rows()),
}
# The settings of the fine-tuning that the paper gives.
SETTINGS = {
    "table1_glue": {"train_batch_size": "32", "num_train_epochs": "3",
                    "grid": "learning_rate=5e-5,4e-5,3e-5,2e-5"},
    "table2_squad": {"train_batch_size": "32", "num_train_epochs": "3", "learning_rate": "5e-5"},
    "table3_squad2": {"train_batch_size": "48", "num_train_epochs": "2", "learning_rate": "5e-5",
                      "version_2_with_negative": "true"},
    "table4_swag": {"train_batch_size": "16", "num_train_epochs": "3", "learning_rate": "2e-5"},
    "table7_ner": {"document_context": "true", "do_lower_case": "false"},
}  # fmt: skip
LARGE = {
    "table1_glue": "86.7 85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 82.1",
    "table2_squad": "84.1 90.9",
    "table4_swag": "86.6",
    "table7_ner": "96.6 92.8 - - - - - -",
}


class Command:
    """A recorded command: its program, its flags, and those of the program inside a sweep."""

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
        self.recorder.write_text(RECORDER.format(python=sys.executable))
        self.recorder.chmod(0o755)
        (self.folder / "vocab.txt").write_text("a\nb\nc")

    def run(self, name, *flags, **settings):
        folder = str(self.folder)
        environment = {
            "PATH": os.environ["PATH"], "PYTHON": str(self.recorder), "OUT": f"{folder}/out",
            "COMMANDS": f"{folder}/commands", "TEXT": "corpus", "VOCAB": f"{folder}/vocab.txt",
            "CONFIG": "config.json", "MODEL": "model", "GLUE": f"{folder}/glue", "SQUAD": folder,
            "SWAG": folder, "CONLL": folder, **settings,
        }  # fmt: skip
        environment = {key: value for key, value in environment.items() if value is not None}
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
        [sys.executable, ROOT / path, "--help"], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"^  --(\w+)=", shown.stdout, re.M))


def all_flags(command, commands):
    """Returns the flags of a command, and of those that created its data and its initial model."""
    found = {}
    for other in commands[: command.number]:
        flags = other.flags
        if flags.get("output_dir") == command.flags.get("init_checkpoint"):
            found |= all_flags(other, commands)
        records = os.path.dirname(command.flags.get("input_file", ""))
        if records and records == os.path.dirname(flags.get("output_file", "")):
            found |= flags
    config = command.flags.get("bert_config_file")
    if config and os.path.exists(config):
        found |= json.loads(pathlib.Path(config).read_text())
    return {**found, **command.flags}


def numbers_of_runs(commands):
    """Returns pairs of the number of a command and its flags; see `all_flags`."""
    return [(each.number, all_flags(each, commands)) for each in commands]


def selected(flags, wanted):
    return all(flags.get(name) == value for name, value in wanted.items())


def expected_result(runs, value, wanted):
    """Returns what the recorder wrote for the only run with the wanted flags."""
    (number,) = (number for number, flags in runs if selected(flags, wanted))
    if value == "perplexity":
        return f"{2.718281828459045 ** (1 + number / 100):.2f}"
    start, change = value
    return f"{start + change * number / 10:.1f}"


def test_every_table_of_the_paper_has_a_recipe():
    assert sorted(TABLES) == NAMES
    assert [name[:6] for name in NAMES if name not in WITHOUT_TABLE] == [
        f"table{number}" for number in range(1, 9)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_program_has_the_flags(recorded, name):
    check_flags(recorded(name)[1])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_TABLE])
def test_every_row_has_the_figure_of_the_paper_and_the_result(recorded, name):
    recipe, commands, printed = recorded(name)
    rows = TABLES[name]
    runs = numbers_of_runs(commands)
    results = [expected_result(runs, *row[3:]) for row in rows if row[3]]
    if len(results) < len(rows):  # the last row is the mean of the others
        results.append(f"{sum(map(float, results)) / len(results):.1f}")
    table = recipe.table()
    assert table[0] == ("label", "metric", "paper", "result", "runs")
    expected = [(*row[:3], result) for row, result in zip(rows, results, strict=True)]
    assert [row[:4] for row in table[1:]] == expected
    shown = printed.splitlines()
    assert shown[1].startswith(f"Table {name[5]}, ")
    for line, row in zip(shown[4:], table[1:], strict=True):
        assert line.split() == " ".join(row).split()


def check_flags(commands):
    """Checks that each program exists and has all flags."""
    for command in commands:
        parts = [(command.path, command.argv), *([command.inner] if command.inner else [])]
        for path, argv in parts:
            names = [word[2:].split("=")[0] for word in argv]
            assert not [n for n, count in collections.Counter(names).items() if count > 1], argv
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
        assert {key: flags[key] for key in SETTINGS[name]} == SETTINGS[name]


def test_mosaic_bert_has_the_settings_of_its_source(recorded):
    records, training = (each.flags for each in recorded("mosaic_bert")[1])
    expected = {"max_seq_length": "128", "objective": "mlm", "masked_lm_prob": "0.15"}
    assert {name: records[name] for name in expected} == expected
    expected = {
        "max_seq_length": "128", "train_batch_size": "4096", "num_train_steps": "70000",
        "num_warmup_steps": "4200", "learning_rate": "5e-4", "adam_beta_1": "0.9",
        "adam_beta_2": "0.98", "objective": "mlm",
    }  # fmt: skip
    assert {name: training[name] for name in expected} == expected
    # The weight decay of a step at the peak is 1e-5.
    assert float(training["weight_decay_rate"]) * 5e-4 == pytest.approx(1e-5)


def test_the_pretraining_has_the_settings_of_the_paper(recorded):
    short, long, first, second = (each.flags for each in recorded("pretrain_base")[1])
    names = "max_seq_length", "max_predictions_per_seq", "dupe_factor"
    assert [[flags[name] for name in names] for flags in (short, long)] == [
        ["128", "20", "10"], ["512", "77", "10"],
    ]  # fmt: skip
    names = "max_seq_length", "train_batch_size", "num_train_steps", "learning_rate"
    assert [[flags[name] for name in names] for flags in (first, second)] == [
        ["128", "256", "1000000", "1e-4"], ["512", "256", "100000", "1e-5"],
    ]  # fmt: skip
    assert (first["stop_at_step"], first["num_warmup_steps"]) == ("900000", "10000")
    assert second["init_checkpoint"] == first["output_dir"]


@pytest.mark.parametrize("name", LARGE)
def test_figures_of_bert_large(recipe, name):
    assert recipe.run(name, SIZE="large", TASKS="RTE", FEATURES="last").returncode == 0
    assert " ".join(row[2] for row in recipe.table()[1:]) == LARGE[name]


def test_the_rows_of_runs_that_are_left_out_have_no_result(recipe):
    assert recipe.run("table5_ablations", TASKS="MRPC", SQUAD=None).returncode == 0
    results = [row[3] for row in recipe.table()[1:]]
    assert [result == "-" for result in results] == [True, True, False, True, True] * 4


def test_results_that_are_not_finite_are_not_the_best(tmp_path):
    for seed, value in ((1, "nan"), (2, "0.5"), (3, "0.4")):
        run = tmp_path / f"runs/learning_rate=1+seed={seed}"
        run.mkdir(parents=True)
        (run / "eval_results.txt").write_text(f"eval_spearman = {value}\n")
    command = [sys.executable, str(RECIPES / "table.py"), "best", str(tmp_path), "eval_spearman"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.strip().endswith("seed=2")


def test_no_average_without_all_tasks(recipe):
    assert recipe.run("table1_glue", TASKS="MRPC RTE").returncode == 0
    assert [row[3] != "-" for row in recipe.table()[1:]] == [False] * 7 + [True, True, False]


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
    (collecting,) = (each.flags for each in commands if "make_glue" in each.flags["program"])
    folders = [flags["output_dir"] for flags in predicting]
    assert collecting["input_dirs"].split(",") == folders


@pytest.mark.parametrize(("name", "missing"), [("table1_glue", "GLUE"), ("table6_size", "VOCAB")])
def test_a_missing_setting_is_reported_before_the_first_command(recipe, name, missing):
    done = recipe.run(name, **{missing: None})
    assert done.returncode == 2 and not recipe.commands()
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the environment variable {missing} is not set. Give ")


def test_missing_data_are_reported_before_the_first_command(recipe):
    done = recipe.run("table1_glue", GLUE="/missing")
    assert done.returncode == 2 and not recipe.commands()
    assert re.fullmatch(r"error: /missing/\S+ does not exist.\n", done.stderr)


def test_a_wrong_size_is_refused(recipe):
    done = recipe.run("table2_squad", SIZE="tiny")
    assert done.returncode == 2 and done.stderr == "error: SIZE=tiny is not base or large.\n"


def test_a_failing_program_ends_the_recipe_with_its_code(recipe):
    recipe.recorder.write_text("#!/bin/sh\nexit 7\n")
    assert recipe.run("table5_ablations").returncode == 7


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_a_recipe_describes_it(name):
    head = (RECIPES / f"{name}.sh").read_text("utf-8").split("\nset -euo pipefail\n")[0]
    for word in ("Hardware", "Time", "Expected", f"bash run_scripts/recipes/{name}.sh"):
        assert word in head
    for row in TABLES[name]:
        assert re.search(rf"\b{re.escape(row[2])}\b", head), row
