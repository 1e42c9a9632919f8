"""sweep.py: grid, commands, table, files, kills, failed runs, and refused input."""

import _thread
import csv
import logging
import pathlib
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import fake_sweep
import pytest
import tensorflow as tf
from fake_sweep import PROGRAM, fake_plan, run_fake
from refusals import refused
from run_programs import run_lines, run_mains
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bert_tf.runs.dev_split import DevResult
from bert_tf.storage.locks import try_lock
from bert_tf.sweeps import results
from bert_tf.sweeps.plan import PlannedRun, make_plan, parse_grid
from bert_tf.sweeps.store import SweepStore

MODULE = "bert_tf.run_scripts.sweep"
TESTS = pathlib.Path(fake_sweep.__file__).parent


def started(folder):
    return (folder / "started").read_text().splitlines()


def with_weights(folder):
    """Returns the names of the runs that have a checkpoint and records."""
    found = {path.parent.name for path in (folder / "sweep/runs").glob("*/checkpoints")}
    assert found == {
        path.parent.name for path in (folder / "sweep/runs").glob("*/train.tf_record")
    }
    return found


def test_the_first_flag_of_the_grid_varies_slowest(tmp_path):
    grid = ["learning_rate=5e-5,4e-5", "train_batch_size=16,32"]
    plan = make_plan(grid, 2, str(tmp_path), PROGRAM)
    names = [run.name for run in plan.runs()]
    assert names[:3] == [
        "learning_rate=5e-5+train_batch_size=16+seed=1",
        "learning_rate=5e-5+train_batch_size=16+seed=2",
        "learning_rate=5e-5+train_batch_size=32+seed=1",
    ]
    assert len(set(names)) == 8
    assert shlex.join(plan.command(plan.runs()[0])[1:]) == (
        "-m bert_tf.run_scripts.run_classifier --task_name=sst-2 --do_train=true "
        "--do_eval=true --learning_rate=5e-5 --train_batch_size=16 --seed=1 "
        f"--output_dir={tmp_path}/runs/{names[0]}"
    )


def test_names_of_runs_are_names_of_folders():
    run = PlannedRun((("init_checkpoint", "/data/b 1/[x]"),), 3)
    assert run.name == "init_checkpoint=%2Fdata%2Fb%201%2F%5Bx%5D+seed=3"
    first, second = (
        PlannedRun((("a", a), ("b", b)), 1).name
        for a, b in (("1", "2+b=3"), ("1+b=2", "3"))
    )
    assert first != second


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["learning_rate=1,,2"], "must be the name of a flag and its values"),
        (["a=1", "a=2"], "--grid=a=2 repeats a flag or a value"),
        (["a=1,2,1"], "--grid=a=1,2,1 repeats a flag or a value"),
        (["seed=1,2"], "see --seeds"),
        (["task_name=MRPC,RTE"], "Start a sweep for each of them"),
    ],
)
def test_malformed_grids_are_refused(texts, message):
    with refused(message.replace("(", r"\(")):
        parse_grid(texts)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "Received: no program. Give it with its flags after --"),
        (["run_pretraining.py"], "must be one of run_classifier, run_squad"),
        ([*PROGRAM, "--overwrite"], "--overwrite cannot be given after --"),
        ([*PROGRAM, "--export_dir=x"], "all runs would export to this folder"),
        ([*PROGRAM, "--a=2"], "--a cannot be given after --: it is in the grid"),
    ],
)
def test_malformed_commands_are_refused(command, message):
    with refused(message):
        make_plan(["a=1"], 1, "out", command)


def result(value):
    return DevResult("sst-2", "eval_accuracy", True, value, 0.5, {})


CELLS = [(("rate", "5e-5"),), (("rate", "4e-5"),), (("rate", "3e-5"),)]
RESULTS = {
    PlannedRun(CELLS[0], 1): result(0.6), PlannedRun(CELLS[0], 2): result(0.9),
    PlannedRun(CELLS[0], 3): result(0.5), PlannedRun(CELLS[1], 1): result(0.9),
}  # fmt: skip
FAILED = PlannedRun(CELLS[1], 2), PlannedRun(CELLS[2], 1)


def test_the_table_has_mean_deviation_and_best_of_each_cell():
    table = results.make_cells(CELLS, RESULTS, FAILED)
    assert results.as_csv(table) == (
        "rate,runs,failed,degenerate,mean,std,best,best_seed\n"
        "5e-5,3,0,1,0.666667,0.208167,0.900000,2\n"
        "4e-5,1,1,0,0.900000,,0.900000,1\n"
        "3e-5,0,1,0,,,,\n"
    )
    assert results.as_table(table).splitlines() == [
        "Results on the dev split (eval_accuracy):",
        "rate  runs  failed  degenerate    mean     std    best  best_seed",
        "5e-5     3       0         1 *  0.6667  0.2082  0.9000          2",
        "4e-5     1       1           0  0.9000          0.9000          1",
        "3e-5     0       1           0",
        "* rate=5e-5+seed=3: 0.5000 is no better than a constant prediction (0.5000).",
    ]
    # The first of two equal ones.
    assert results.best_run(RESULTS) == PlannedRun(CELLS[0], 2)


def test_results_that_are_not_finite_count_as_no_result():
    nan = result(float("nan"))
    found = {PlannedRun(CELLS[0], 1): nan, PlannedRun(CELLS[0], 2): result(0.8),
               PlannedRun(CELLS[1], 1): nan}  # fmt: skip
    assert results.as_csv(results.make_cells(CELLS[:2], found, [])).splitlines()[
        1:
    ] == [
        "5e-5,2,0,1,0.800000,,0.800000,2",
        "4e-5,1,0,1,,,,",
    ]
    assert results.best_run(found) == PlannedRun(CELLS[0], 2)


def session(folder):
    """Returns rate, group and metrics of a run on TensorBoard's HPARAMS page."""
    events = EventAccumulator(str(folder)).Reload()
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    started = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    values = {
        tag: tf.make_ndarray(events.Tensors(tag)[0].tensor_proto).item()
        for tag in events.PluginTagToContent("scalars")
    }
    return started.hparams["rate"].number_value, started.group_name, values


def test_tensorboard_shows_the_table(tmp_path):
    table, page = results.make_cells(CELLS, RESULTS, FAILED), tmp_path / "page"
    for _ in range(2):  # the second call replaces the first one
        results.write_hparams_page(str(page), {"rate": ["5e-5", "4e-5", "3e-5"]}, table)
    names = [f"rate=5e-5+seed={seed}" for seed in (1, 2, 3)]
    assert {path.name for path in page.iterdir() if path.is_dir()} == {
        *names,
        "rate=4e-5+seed=1",
    }
    shared = {"std": 0.208167, "best": 0.9, "failed": 0, "degenerate": 1}
    for name, value in zip(names, (0.6, 0.9, 0.5), strict=True):
        metrics = pytest.approx({"eval_accuracy": value, **shared}, abs=1e-6)
        assert session(page / name) == (5e-5, "rate=5e-5", metrics)
    shared = {"std": 0, "best": 0.9, "failed": 1, "degenerate": 0}
    metrics = pytest.approx({"eval_accuracy": 0.9, **shared})
    assert session(page / "rate=4e-5+seed=1") == (4e-5, "rate=4e-5", metrics)


def test_only_the_best_run_keeps_its_weights(tmp_path):
    found = run_fake(tmp_path)
    assert [round(each.value, 3) for each in found.values()] == [
        0.11, 0.12, 0.31, 0.32, 0.21, 0.22,
    ]  # fmt: skip
    assert [each.is_degenerate for each in found.values()] == [True, True, *[False] * 4]
    assert with_weights(tmp_path) == {"x=3+seed=2"}
    # More values and seeds: finished runs are not repeated, and the new best run keeps
    # its weights.
    (tmp_path / "started").unlink()
    run_fake(tmp_path, values="1,3,2,4", seeds=3, parallel=3)
    assert sorted(started(tmp_path)) == ["1 3", "2 3", "3 3", "4 1", "4 2", "4 3"]
    assert with_weights(tmp_path) == {"x=4+seed=3"}


def test_all_runs_keep_their_weights_on_request(tmp_path):
    run_fake(tmp_path, keep_all=True)
    assert len(with_weights(tmp_path)) == 6
    run_fake(tmp_path)  # the next call does not remove them
    assert len(with_weights(tmp_path)) == 6


def test_a_failed_run_is_reported_and_tried_again(tmp_path):
    (tmp_path / "3.fails").touch()
    assert run_fake(tmp_path, seeds=1)["x=3+seed=1"] == "error: no space left"
    # Another process, because sweep.py defines flags that other programs define too.
    (reported,) = run_mains([("fake_sweep", [str(tmp_path)])], cwd=TESTS)
    assert reported.code == 1, reported.err
    rows = csv.DictReader((tmp_path / "sweep/sweep.csv").read_text().splitlines())
    assert [row["x"] + row["failed"] for row in rows] == ["10", "31", "20"]
    *_, failed, best = reported.out.splitlines()
    log = tmp_path / "sweep/logs/x=3+seed=1.log"
    assert failed == f"failed: x=3+seed=1: error: no space left ({log})"
    assert best.startswith(
        "Best run: x=2+seed=1: eval_accuracy 0.2100 on the dev split. Next: "
    )
    assert f"--checkpoint={tmp_path}/sweep/runs/x=2+seed=1 " in best
    assert len(list((tmp_path / "sweep/tensorboard").glob("*/events.*"))) == 2
    (tmp_path / "3.fails").unlink()
    (tmp_path / "started").unlink()
    found = run_fake(tmp_path, seeds=1)
    assert [round(each.value, 3) for each in found.values()] == [0.11, 0.31, 0.21]
    assert started(tmp_path) == ["3 1"]


def test_a_refused_value_leaves_nothing(tmp_path):
    with refused(r"refuses x=7: x must not be 7\. Received: 7\."):
        run_fake(tmp_path, values="1,7")
    assert not list(tmp_path.iterdir())
    run_fake(tmp_path, values="1", seeds=1)
    before = (tmp_path / "sweep/sweep.json").read_text()
    with refused("refuses x=7"):
        run_fake(tmp_path, values="1,7", seeds=1)
    assert (tmp_path / "sweep/sweep.json").read_text() == before


def test_files_of_others_are_not_replaced(tmp_path):
    path = tmp_path / "sweep/tensorboard/mine"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with refused(r"would be replaced, but .* contains no sweep"):
        run_fake(tmp_path)
    assert [path.name for path in (tmp_path / "sweep").iterdir()] == ["tensorboard"]


def save(plan):
    store = SweepStore(plan)
    with store.locked():
        store.save_plan(keep_all=False)


@pytest.mark.parametrize(
    ("grid", "seeds", "command"),
    [
        ("x=1,2", 2, [*PROGRAM, "--labels=a"]),
        ("y=1,2", 2, PROGRAM),
        ("x=2,1", 2, PROGRAM),
        ("x=1,2", 1, PROGRAM),
    ],
)
def test_another_sweep_in_the_folder_is_refused(tmp_path, grid, seeds, command):
    save(fake_plan(tmp_path, values="1,2"))
    words = "another sweep: --grid=x=1,2 --seeds=2 -- run_classifier --task_name=sst-2"
    with refused(words):
        save(make_plan([grid], seeds, str(tmp_path / "sweep"), command))


def wait_for_starts(folder, count):
    """Waits until a sweep has started this number of runs."""
    deadline = time.monotonic() + 400
    while not (folder / "started").exists() or len(started(folder)) != count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.medium
def test_a_sweep_waits_for_another_one_and_for_runs_of_a_killed_sweep(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "3.waits").touch()
    first = subprocess.Popen([sys.executable, fake_sweep.__file__, tmp_path])
    wait_for_starts(tmp_path, 4)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(run_fake, tmp_path, parallel=2)
        while "Waiting: Another sweep writes" not in caplog.text:
            assert not second.done()
            time.sleep(0.02)
        first.kill()
        first.wait()
        # Nothing is started while the runs of the first sweep live.
        assert len(started(tmp_path)) == 4 and not second.done()
        (tmp_path / "3.waits").unlink()
        second.result(timeout=120)
    assert with_weights(tmp_path) == {"x=3+seed=2"}
    # The runs that ended after the sweep was killed are not repeated.
    assert sorted(started(tmp_path)) == ["1 1", "1 2", "2 1", "2 2", "3 1", "3 2"]


def test_a_stop_ends_the_runs_and_is_no_failure(tmp_path):
    (tmp_path / "3.waits").touch()

    def stop():
        wait_for_starts(tmp_path, 4)
        _thread.interrupt_main()  # as Ctrl-C does

    with ThreadPoolExecutor() as pool, pytest.raises(KeyboardInterrupt):
        pool.submit(stop)
        run_fake(tmp_path, parallel=2)
    found = SweepStore(fake_plan(tmp_path)).results()
    assert [run.name for run in found] == ["x=1+seed=1", "x=1+seed=2"]
    with open(tmp_path / "sweep/sweep.lock") as file:
        assert try_lock(file)  # the runs have ended


def test_bad_input_is_one_line_and_a_dry_run_prints_commands(tmp_path):
    program = [*PROGRAM, "--data_dir=.", "--vocab_file=v.txt", "--labels=a 'b"]
    words, out = shlex.join(program), f"--output_dir={tmp_path}/out"
    renamed = words.replace("run_classifier.py", "bert-tf-run-classifier")
    dry, no_flag, refused = run_lines(
        MODULE,
        f"--grid=learning_rate=1e-3,2e-3 --dry_run {out} --seeds=2 -- {words}",
        f"--grid=no_flag=1,2 {out} -- {renamed}",
        f"--grid=learning_rate=x,1e-3 {out} -- {words}",
    )
    plan = make_plan(["learning_rate=1e-3,2e-3"], 2, f"{tmp_path}/out", program)
    assert [shlex.split(line) for line in dry.out.splitlines()] == [
        plan.command(run) for run in plan.runs()
    ]
    for result, words in (
        (no_flag, "refuses no_flag=1: Unknown command line flag 'no_flag'"),
        (refused, "refuses learning_rate=x: flag --learning_rate=x: could not"),
    ):
        assert result.code == 2
        found = [line for line in result.messages if words in line]
        assert found == result.messages[-1:]
    assert not (tmp_path / "out").exists()
