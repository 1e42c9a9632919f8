"""Any number of workers, any runner, killed or not: the same bytes."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import local

ROOT = pathlib.Path(__file__).parents[2]
WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
# Many segments of little text, so that every step has several tasks.
MANY_SEGMENTS = {
    "segment_bytes": 20000, "pool_bytes": 70000, "dupe_factor": 3, "eval_fraction": 0.2,
    "num_output_shards": 3,
}  # fmt: skip
PROGRAM = """
import sys
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import local, stages
if __name__ == "__main__":
    local._BYTES_PER_WORKER = 1
    stages.tokenizer({vocabulary!r}, True)
    print("ready", flush=True)
    flags = {flags!r}
    local.create(RecordsConfig({vocabulary!r}, **flags), {source!r}, [{output!r}], {workers})
"""


@pytest.fixture
def files(tmp_path):
    vocabulary, source = tmp_path / "vocab.txt", tmp_path / "corpus.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##x"]
    vocabulary.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    rng = random.Random(7)
    documents = [
        "\n".join(
            " ".join(rng.choices(WORDS, k=rng.randint(1, 25))) for _ in range(rng.randint(1, 30))
        )
        for _ in range(200)
    ]
    source.write_text("\n\n".join(documents), encoding="utf-8")
    return str(vocabulary), str(source)


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def undisturbed(files, tmp_path):
    vocabulary, source = files
    output = tmp_path / "undisturbed" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], 1)
    return contents(output.parent)


def program(files, output, workers):
    vocabulary, source = files
    return PROGRAM.format(
        flags=MANY_SEGMENTS,
        vocabulary=vocabulary,
        source=source,
        output=str(output),
        workers=workers,
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers(files, undisturbed, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(local, "_BYTES_PER_WORKER", 1)
    vocabulary, source = files
    output = tmp_path / "workers" / "a.tfrecord"
    local.create(RecordsConfig(vocabulary, **MANY_SEGMENTS), source, [str(output)], workers)
    assert contents(output.parent) == undisturbed


def test_beam(files, undisturbed, tmp_path):
    pytest.importorskip("apache_beam", reason="needs the [beam] extra")
    from data_prep.runners import beam

    vocabulary, source = files
    output = tmp_path / "beam" / "a.tfrecord"
    config = RecordsConfig(vocabulary, **MANY_SEGMENTS)
    reports = beam.create(config, source, [str(output)], ["--runner=DirectRunner"])
    assert reports["train"]["examples"] > 1000
    assert contents(output.parent) == undisturbed
    assert beam.create(config, source, [str(output)], []) == {}


@pytest.mark.slow
def test_killed_at_any_moment(files, undisturbed, tmp_path):
    output = tmp_path / "killed" / "a.tfrecord"
    script = tmp_path / "run.py"
    script.write_text(program(files, output, 1), encoding="utf-8")
    rng, killed = random.Random(int(time.time())), 0
    while killed < 10:
        process = subprocess.Popen(
            [sys.executable, str(script)], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        # Imports take seconds, the work less than one: wait for the work to begin.
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.6)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() != 0
        if (output.parent / "a.COMPLETED").exists():
            made = contents_of_files(output.parent)
            assert {name: made[name] for name in undisturbed} == undisturbed
            shutil.rmtree(output.parent)
    subprocess.run([sys.executable, str(script)], cwd=ROOT, check=True, capture_output=True)
    assert contents(output.parent) == undisturbed


def contents_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_shard_that_is_gone_is_not_taken_for_made(tmp_path):
    shard, marker = tmp_path / "a.tfrecord", tmp_path / "shard-train-0"
    shard.write_bytes(b"12345")
    marker.write_text(json.dumps({"bytes": 5}))
    assert local._is_made(str(shard), str(marker))
    shard.write_bytes(b"1234")
    assert not local._is_made(str(shard), str(marker))
    assert not marker.exists()


def test_a_second_output_gets_its_folder_too(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]) + "\n")
    (tmp_path / "text").write_text("a b a\nb a b\n\nb b a\na a b\n")
    outputs = [str(tmp_path / "x/a.tfrecord"), str(tmp_path / "y/b.tfrecord")]
    config = RecordsConfig(str(vocab), max_seq_length=32, max_predictions_per_seq=5)
    local.create(config, str(tmp_path / "text"), outputs, num_workers=1)
    assert all(os.path.getsize(path) for path in outputs)
