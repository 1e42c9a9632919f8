"""The output of a pretraining run: cost of a step, log entries, TensorBoard events."""

import functools
import json
import os
import shutil

import hostile_records
import linear_runs
import numpy as np
import pytest
import tiny_bert
import tiny_corpus
from run_programs import as_flags, assert_refused, run_main
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.training.lifecycle.run_folder import RunFolder

PROGRAM = "bert_tf.run_scripts.run_pretraining"
FIELDS = {**tiny_bert.CONFIG, "vocab_size": len(tiny_corpus.VOCABULARY)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with records, a damaged copy of them, and an architecture."""
    folder = tmp_path_factory.mktemp("run")
    vocab = tiny_corpus.vocabulary_file(folder)
    text = tiny_corpus.text_of(tiny_corpus.corpus(20))
    _, (records,) = tiny_corpus.make(
        folder, vocab, text, max_seq_length=16, max_predictions_per_seq=3
    )
    damaged = shutil.copy(records, folder / "damaged.tfrecord")
    hostile_records.flip(damaged, os.path.getsize(damaged) // 2)
    (folder / "config.json").write_text(json.dumps(FIELDS))
    return folder


def run_all(folder, *commands):
    """Runs the program with flags for the records.

    Each command is a dict of further flags.
    """
    flags = {
        "input_file": folder / "out/data.tfrecord",
        "bert_config_file": folder / "config.json",
        "vocab_file": folder / "vocab.txt",
        "max_seq_length": 16,
        "max_predictions_per_seq": 3,
        "train_batch_size": 4,
    }
    return run_main(PROGRAM, *(as_flags({**flags, **each}) for each in commands))


@pytest.fixture(scope="module")
def run(folder):
    flags = {
        "output_dir": folder / "run", "do_train": True, "num_train_steps": 6,
        "num_warmup_steps": 1, "log_steps": 2, "eval_steps": 3, "max_eval_steps": 2,
    }  # fmt: skip
    (result,) = run_all(folder, flags)
    assert result.code == 0, result.err
    return folder / "run", result.messages


def test_a_damaged_record_of_the_evaluation_is_reported(folder, run, tmp_path):
    alone = {"output_dir": run[0], "do_eval": True, "max_eval_steps": 0}
    in_training = {
        "output_dir": tmp_path / "run",
        "do_train": True,
        "num_train_steps": 2,
        "eval_steps": 1,
        "max_eval_steps": 0,
    }
    damaged = {"eval_input_file": folder / "damaged.tfrecord"}
    for result in run_all(folder, {**alone, **damaged}, {**in_training, **damaged}):
        assert result.code == 2, result.err
        assert "damaged.tfrecord cannot be read: " in result.messages[-1]
        assert result.messages[-1].endswith("or give --skip_bad_records=true.")
    with RunFolder(str(run[0])).locked():
        results = run_all(folder, alone, {**alone, "skip_bad_records": True})
    for result in results:
        assert result.code == 2, result
        assert "Another run is training or evaluating in" in result.messages[-1]
    assert (
        not (run[0] / "salvaged").exists()
        and not (run[0] / "eval_results.txt").exists()
    )


def test_damaged_records_are_left_out_on_request(folder, tmp_path):
    flags = {
        "output_dir": tmp_path,
        "do_train": True,
        "num_train_steps": 2,
        "eval_steps": 1,
    }
    data = {
        "input_file": folder / "damaged.tfrecord",
        "eval_input_file": folder / "out/data.tfrecord",
    }
    (result,) = run_all(folder, {**flags, **data, "skip_bad_records": True})
    assert result.code == 0, result
    assert f"damaged records of {data['input_file']} left out: 1" in result.err
    assert len(list((tmp_path / "salvaged").iterdir())) == 1


def test_the_default_of_the_warm_up_follows_the_steps(folder, tmp_path):
    expected = {9: 0, 200: 20, 100_000: 10_000}
    flags = {"do_train": True, "stop_at_step": 1}
    commands = [
        {**flags, "num_train_steps": each, "output_dir": tmp_path / str(each)}
        for each in expected
    ]
    for result, (steps, warmup) in zip(
        run_all(folder, *commands), expected.items(), strict=True
    ):
        assert result.code == 0, result.err
        settings = json.loads((tmp_path / f"{steps}/training_config.json").read_text())
        assert settings["num_warmup_steps"] == warmup


def test_each_evaluation_reports_the_accuracies_of_the_majority(run):
    lines = [line for line in run[1] if ", eval: " in line]
    assert [line.split(", ")[0] for line in lines] == ["step 3", "step 6"]
    for line in lines:
        assert "masked_lm_majority_accuracy 0." in line
        assert "next_sentence_majority_accuracy 0." in line


def test_the_cost_of_a_step_is_printed_before_training(run):
    _, said = run
    weights = variables_by_name(BertPretrainer(BertConfig(**FIELDS))).values()
    count = sum(int(np.prod(weight.shape)) for weight in weights)
    at = said.index(next(line for line in said if "parameters" in line))
    assert said[at].startswith(f"{count:,} parameters; 64 tokens and ")
    assert said[at + 1].startswith("estimated memory on each device: ")
    assert not any("training:" in line for line in said[:at])


def test_speeds_are_logged(run):
    folder, _ = run
    trained = linear_runs.log_entries(folder, "train")
    assert [line["step"] for line in trained] == [2, 4, 6]
    for line in trained:
        for clock in ("", "_wall_clock"):
            tokens = line[f"tokens_per_sec{clock}"]
            assert tokens == pytest.approx(16 * line[f"examples_per_sec{clock}"])
        # The evaluation and the checkpoint take time, and the first graph call traces
        # the graph.
        assert line["examples_per_sec_wall_clock"] < line["examples_per_sec"]


def test_tensorboard_events_contain_samples_and_hyperparameters(run):
    folder, _ = run
    held_out = EventAccumulator(str(folder / "eval")).Reload()
    texts = held_out.Tensors("samples")
    assert [text.step for text in texts] == [3, 6]
    for text in texts:
        (markdown,) = text.tensor_proto.string_val
        assert markdown.decode().count("| | true | predicted |") == 3
    train = EventAccumulator(str(folder / "train")).Reload()
    assert "_hparams_/session_start_info" in train.PluginTagToContent("hparams")


def test_evaluation_takes_model_and_lengths_from_the_run_and_the_records(folder, run):
    start = {"do_eval": True, "output_dir": run[0]}
    records = folder / "out/data.tfrecord"
    commands = (
        {**start, "eval_input_file": records},
        {**start, "input_file": records},
        start,
    )
    eval_only, input_only, no_records = run_main(PROGRAM, *map(as_flags, commands))
    assert eval_only.code == input_only.code == 0, eval_only.err + input_only.err
    assert eval_only.out == input_only.out and "global_step = 6" in eval_only.out
    assert_refused(no_records, "--input_file is required")
    (run[0] / "eval_results.txt").unlink()  # another test expects none


def test_only_do_eval_and_eval_steps_evaluate(folder, tmp_path):
    other = "\n".join([*tiny_corpus.VOCABULARY[:-1], "other"]) + "\n"
    (tmp_path / "other.txt").write_text(other)
    flags = {
        "eval_input_file": folder / "out/data.tfrecord",
        "do_train": True,
        "num_train_steps": 2,
    }
    changes = {"bert_config_file": "tiny", "vocab_file": tmp_path / "other.txt"}
    without, with_eval, refused = run_all(
        folder,
        {**flags, "output_dir": tmp_path / "without"},
        {
            **flags,
            "output_dir": tmp_path / "with",
            "do_eval": True,
            "max_eval_steps": 1,
        },
        {**flags, "output_dir": tmp_path / "x", **changes},
    )
    assert without.code == with_eval.code == 0, without.err + with_eval.err
    assert "eval" not in without.err and without.out == ""
    warning = "The evaluation reads training records (1 of 1 files"
    assert (
        warning in with_eval.err
        and "Give other records as eval_input_file" in with_eval.err
    )
    assert_refused(refused, "Give the --vocab_file that the records were created with.")


def test_a_run_resumes_without_the_checkpoint_that_it_started_from(
    folder, run, tmp_path
):
    shutil.copytree(run[0], tmp_path / "first")
    shutil.copytree(run[0], tmp_path / "second")

    def command(steps, **flags):
        values = {
            "input_file": folder / "out/data.tfrecord", "do_train": True,
            "output_dir": tmp_path / "out", "num_train_steps": 4, "train_batch_size": 4,
            "stop_at_step": steps,
        }  # fmt: skip
        return as_flags({**values, **flags})

    vocab = {"vocab_file": tmp_path / "first/gone/vocab.txt"}
    run_program = functools.partial(run_main, PROGRAM)
    (started,) = run_program(command(1, init_checkpoint=tmp_path / "first"))
    assert started.code == 0, started.err
    moved, others = run_program(
        command(2, init_checkpoint=tmp_path / "second"),
        command(3, init_checkpoint=tmp_path / "out/checkpoints/step-00000001"),
    )
    assert moved.code == 0, moved.err
    assert "Continuing from step 1" in moved.err
    assert_refused(
        others, "contains a run with --init_checkpoint='weights with SHA-256"
    )
    shutil.rmtree(tmp_path / "first")
    deleted, left_out, longer = run_program(
        command(3, init_checkpoint=tmp_path / "first", **vocab),
        command(4),
        command(9, num_train_steps=9),
    )
    assert deleted.code == left_out.code == 0, deleted.err + left_out.err
    assert "Continuing from step 3" in left_out.err
    assert_refused(
        longer, "with --num_train_steps=4, but this run has --num_train_steps=9. ",
        f"give another --output_dir and --init_checkpoint={tmp_path}/out.",
    )  # fmt: skip
    # Settings of an earlier version contain the path.
    path = tmp_path / "out/training_config.json"
    settings = json.loads(path.read_text())
    settings["data"]["init_checkpoint"] = str(tmp_path / "first")
    path.write_text(json.dumps(settings))
    same, another = run_program(
        command(4, init_checkpoint=tmp_path / "first"),
        command(4, init_checkpoint=tmp_path / "second"),
    )
    assert same.code == 0, same.err
    assert_refused(
        another, "contains a run with --init_checkpoint=", "/first", "SHA-256"
    )
