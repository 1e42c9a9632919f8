"""The output of a pretraining run: cost of a step, log entries, TensorBoard events."""

import os
import shutil

import hostile_records
import linear_runs
import numpy as np
import pytest
import tiny_bert
import tiny_corpus
from json_files import read_json, write_json
from run_programs import assert_refused, run_lines, run_well, write_rows
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
    write_json(folder / "config.json", FIELDS)
    return folder


@pytest.fixture(scope="module")
def base(folder):
    """The flags of a run on the records."""
    return (
        f"--input_file={folder}/out/data.tfrecord --vocab_file={folder}/vocab.txt "
        f"--bert_config_file={folder}/config.json --max_seq_length=16 "
        "--max_predictions_per_seq=3 --train_batch_size=4"
    )


@pytest.fixture(scope="module")
def run(folder, base):
    (result,) = run_well(
        PROGRAM,
        f"{base} --do_train --num_train_steps=6 --num_warmup_steps=1 --log_steps=2 "
        f"--eval_steps=3 --max_eval_steps=2 --output_dir={folder}/run",
    )
    return folder / "run", result.messages


@pytest.mark.medium
def test_a_damaged_record_of_the_evaluation_is_reported(folder, base, run, tmp_path):
    alone = f"{base} --output_dir={run[0]} --do_eval --max_eval_steps=0"
    damaged = f"--eval_input_file={folder}/damaged.tfrecord"
    results = run_lines(
        PROGRAM,
        f"{alone} {damaged}",
        f"{base} {damaged} --output_dir={tmp_path}/run --do_train --num_train_steps=2 "
        "--eval_steps=1 --max_eval_steps=0",
    )
    for result in results:
        assert result.code == 2, result.err
        assert "damaged.tfrecord cannot be read: " in result.messages[-1]
        assert result.messages[-1].endswith("or give --skip_bad_records=true.")
    with RunFolder(str(run[0])).locked():
        results = run_lines(PROGRAM, alone, f"{alone} --skip_bad_records")
    for result in results:
        assert result.code == 2, result
        assert "Another run is training or evaluating in" in result.messages[-1]
    assert not (run[0] / "salvaged").exists()
    assert not (run[0] / "eval_results.txt").exists()


@pytest.mark.medium
def test_damaged_records_are_left_out_on_request(folder, base, tmp_path):
    (result,) = run_well(
        PROGRAM,
        f"{base} --output_dir={tmp_path} --do_train --num_train_steps=2 "
        f"--eval_steps=1 --input_file={folder}/damaged.tfrecord --skip_bad_records "
        f"--eval_input_file={folder}/out/data.tfrecord",
    )
    assert f"damaged records of {folder}/damaged.tfrecord left out: 1" in result.err
    assert len(list((tmp_path / "salvaged").iterdir())) == 1


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
    start = f"--do_eval --output_dir={run[0]}"
    records = f"{folder}/out/data.tfrecord"
    eval_only, input_only = run_well(
        PROGRAM,
        f"{start} --eval_input_file={records}",
        f"{start} --input_file={records}",
    )
    assert eval_only.out == input_only.out and "global_step = 6" in eval_only.out
    (no_records,) = run_lines(PROGRAM, start)
    assert_refused(no_records, "--input_file is required")
    (run[0] / "eval_results.txt").unlink()  # another test expects none


@pytest.mark.medium
def test_only_do_eval_evaluates_and_the_warm_up_follows_the_steps(
    folder, base, tmp_path
):
    write_rows(tmp_path / "other.txt", *tiny_corpus.VOCABULARY[:-1], "other")
    command = (
        f"{base} --eval_input_file={folder}/out/data.tfrecord --do_train "
        f"--stop_at_step=1 --output_dir={tmp_path}"
    )
    without, with_eval = run_well(
        PROGRAM,
        f"{command}/without --num_train_steps=19",
        f"{command}/with --num_train_steps=200_000 --do_eval --max_eval_steps=1",
    )
    for name, warmup in {"without": 1, "with": 10_000}.items():
        settings = read_json(tmp_path / name / "training_config.json")
        assert settings["num_warmup_steps"] == warmup
    assert "eval" not in without.err and without.out == ""
    warning = "the evaluation reads training records (1 of 1 files"
    assert warning in with_eval.err
    assert "Give other records as eval_input_file" in with_eval.err
    (refused,) = run_lines(
        PROGRAM,
        f"{command}/x --bert_config_file=tiny --vocab_file={tmp_path}/other.txt",
    )
    assert_refused(refused, "Give the --vocab_file that the records were created with.")


@pytest.mark.slow
def test_a_run_resumes_without_the_checkpoint_that_it_started_from(
    folder, run, tmp_path
):
    shutil.copytree(run[0], tmp_path / "first")
    shutil.copytree(run[0], tmp_path / "second")
    command = (
        f"--input_file={folder}/out/data.tfrecord --do_train --num_train_steps=4 "
        f"--train_batch_size=4 --output_dir={tmp_path}/out --stop_at_step="
    )
    first, second = (f"--init_checkpoint={tmp_path}/{n}" for n in ("first", "second"))
    _, moved = run_well(PROGRAM, f"{command}1 {first}", f"{command}2 {second}")
    assert "Continuing from step 1" in moved.err
    other = "contains a run with --init_checkpoint="
    (others,) = run_lines(
        PROGRAM,
        f"{command}3 --init_checkpoint={tmp_path}/out/checkpoints/step-00000001",
    )
    assert_refused(others, f"{other}'weights with SHA-256")
    shutil.rmtree(tmp_path / "first")
    _, left_out = run_well(
        PROGRAM,
        f"{command}3 {first} --vocab_file={tmp_path}/first/gone/vocab.txt",
        f"{command}4",
    )
    assert "Continuing from step 3" in left_out.err
    (longer,) = run_lines(PROGRAM, f"{command}9 --num_train_steps=9")
    assert_refused(
        longer, "with --num_train_steps=4, but this run has --num_train_steps=9. ",
        f"give another --output_dir and --init_checkpoint={tmp_path}/out.",
    )  # fmt: skip
    # Settings of an earlier version contain the path.
    path = tmp_path / "out/training_config.json"
    settings = read_json(path)
    settings["data"]["init_checkpoint"] = str(tmp_path / "first")
    write_json(path, settings)
    run_well(PROGRAM, f"{command}4 {first}")
    (another,) = run_lines(PROGRAM, f"{command}4 {second}")
    assert_refused(another, other, "/first", "SHA-256")
