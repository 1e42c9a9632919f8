"""The output of a pretraining run: cost of a step, metrics.jsonl, TensorBoard events."""

import json

import numpy as np
import pytest
import tiny_corpus
from run_programs import run_main
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bert_tf.config import BertConfig
from bert_tf.modeling import BertPretrainer, variables_by_name
from bert_tf.training.lifecycle.run_folder import RunFolder

FIELDS = {
    "vocab_size": len(tiny_corpus.VOCABULARY), "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 16,
    "type_vocab_size": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    vocab = tiny_corpus.vocabulary_file(folder)
    text = tiny_corpus.text_of(tiny_corpus.corpus(20))
    _, (records,) = tiny_corpus.make(
        folder, vocab, text, max_seq_length=16, max_predictions_per_seq=3
    )
    (folder / "config.json").write_text(json.dumps(FIELDS))
    (result,) = run_main("bert_tf.run_scripts.run_pretraining", [
        f"--input_file={records}", f"--bert_config_file={folder}/config.json",
        f"--vocab_file={vocab}", f"--output_dir={folder}/run", "--max_seq_length=16",
        "--max_predictions_per_seq=3", "--do_train=true", "--num_train_steps=6",
        "--num_warmup_steps=1", "--train_batch_size=4", "--log_steps=2", "--eval_steps=3",
        "--max_eval_steps=2",
    ])  # fmt: skip
    assert result.code == 0, result.err
    return folder / "run", result.messages


def test_evaluation_reports_a_damaged_record(run):
    folder = run[0].parent
    (records,) = folder.glob("**/*.tfrecord")
    damaged = bytearray(records.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.tfrecord").write_bytes(damaged)
    command = [
        f"--eval_input_file={folder}/damaged.tfrecord", f"--output_dir={folder}/run",
        f"--input_file={folder}/damaged.tfrecord",
        f"--bert_config_file={folder}/config.json", f"--vocab_file={folder}/vocab.txt",
        "--max_seq_length=16", "--max_predictions_per_seq=3", "--do_eval=true",
        "--max_eval_steps=0",
    ]  # fmt: skip
    (result,) = run_main("bert_tf.run_scripts.run_pretraining", command)
    assert result.code == 2, result.err
    assert "damaged.tfrecord cannot be read: " in result.messages[-1]
    assert result.messages[-1].endswith("or give --skip_bad_records=true.")
    command[0] = f"--eval_input_file={records}"
    with RunFolder(str(run[0])).locked():
        results = run_main(
            "bert_tf.run_scripts.run_pretraining", command, [*command, "--skip_bad_records"]
        )
    for result in results:
        assert result.code == 2, result
        assert "Another run is training or evaluating in" in result.messages[-1]
    assert not (run[0] / "salvaged").exists() and not (run[0] / "eval_results.txt").exists()


@pytest.mark.parametrize(("steps", "warmup"), [(9, 0), (200, 20), (100_000, 10_000)])
def test_the_default_of_the_warm_up_follows_the_steps(run, tmp_path, steps, warmup):
    folder = run[0].parent
    (records,) = folder.glob("[!d]*/*.tfrecord")
    (result,) = run_main("bert_tf.run_scripts.run_pretraining", [
        f"--input_file={records}", f"--bert_config_file={folder}/config.json",
        f"--vocab_file={folder}/vocab.txt", f"--output_dir={tmp_path}/run", "--max_seq_length=16",
        "--max_predictions_per_seq=3", "--do_train=true", f"--num_train_steps={steps}",
        "--train_batch_size=4", "--stop_at_step=1",
    ])  # fmt: skip
    assert result.code == 0, result.err
    settings = json.loads((tmp_path / "run/training_config.json").read_text())
    assert settings["num_warmup_steps"] == warmup


def test_training_reports_a_damaged_record_of_the_evaluation(run, tmp_path):
    folder = run[0].parent
    records = next(path for path in folder.glob("**/*.tfrecord") if path.name != "damaged.tfrecord")
    damaged = bytearray(records.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(damaged)
    (result,) = run_main("bert_tf.run_scripts.run_pretraining", [
        f"--input_file={records}", f"--eval_input_file={tmp_path}/damaged.tfrecord",
        f"--bert_config_file={folder}/config.json", f"--vocab_file={folder}/vocab.txt",
        f"--output_dir={tmp_path}/run", "--max_seq_length=16", "--max_predictions_per_seq=3",
        "--do_train=true", "--num_train_steps=2", "--num_warmup_steps=1", "--train_batch_size=4",
        "--eval_steps=1", "--max_eval_steps=0",
    ])  # fmt: skip
    assert result.code == 2, result.err
    assert "damaged.tfrecord cannot be read: " in result.messages[-1]


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
    assert "available; " in said[at + 2]
    assert "/s for matrix products in float32: " in said[at + 2]
    assert not any("training:" in line for line in said[:at])


def test_speeds_are_logged(run):
    folder, said = run
    # On a busy machine, the measurements of the peak do not repeat.
    repeats = not any("did not repeat" in line for line in said)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in trained] == [2, 4, 6]
    for line in trained:
        for clock in ("", "_wall_clock"):
            examples, tokens = line[f"examples_per_sec{clock}"], line[f"tokens_per_sec{clock}"]
            assert tokens == pytest.approx(16 * examples)
            assert (f"share_of_peak{clock}" in line) == repeats
        # The evaluation and the checkpoint take time, and the first graph call traces the graph.
        assert line["examples_per_sec_wall_clock"] < line["examples_per_sec"]
        assert line.get("share_of_peak", 0.5) > 0


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
