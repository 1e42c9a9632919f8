"""Programs refuse to replace anything other than an earlier output of theirs."""

import os
import pathlib
import shutil

import pytest
from json_files import write_json
from refusals import refused, refused_with
from run_programs import assert_refused, run_mains
from tiny_bert import CONFIG, VOCABULARY

import bert_tf
from bert_tf.storage import atomic_files, manifest
from bert_tf.storage.paths import check_output_file
from bert_tf.tokenization.vocabulary import write_vocabulary
from bert_tf.training.training_config import TrainingConfig, to_json_dict

EXTRACT = "run_scripts.extract_features --input_file=in.txt --init_checkpoint=model"
EXTRACT += " --layers=-1 --max_seq_length=8"
LEARN = "data_prep.train_vocabulary --input_file=in.txt --vocab_size=20 --num_workers=1"
LEARN += " --num_unused_tokens=0"
RECORDS = (
    "data_prep.create_pretraining_data --input_file=in.txt --vocab_file=model/vocab.txt"
)
ZIP = "run_scripts.make_glue_submission --input_dirs=glue"
OVERWRITE = "--do_train --overwrite --vocab_file=model/vocab.txt"
PRETRAIN = f"run_scripts.run_pretraining --input_file=in.txt {OVERWRITE}"
CLASSIFY = f"run_scripts.run_classifier --task_name=RTE --data_dir=data {OVERWRITE}"
CONVERT = "run_scripts.convert_checkpoint --from=model"
ADAPT = "run_scripts.adapt_vocabulary --init_checkpoint=model --input_file=in.txt"
EXPORT = "run_scripts.export_model --checkpoint=model"
# Paths that no program may write as a file, and words of the message.
PATHS = {
    "/dev/full": "/dev/full is a device. Give the path of a new file",
    "pipe": "pipe is a pipe",
    "data": "data is a folder",
    "data/": "data/",
    "": "",
    "in.txt/out": "in.txt is not a folder",
    "file:///in.txt": "Give the local path without file://",
    "foo://a/b": "foo://a/b is in a file system that TensorFlow does not know",
}
# Each row: a command, and words of the message.
ROWS = [
    # Each program checks its output.
    *(
        (f"{command}=foo://a/b", "error: foo://a/b ")
        for command in (
            f"{PRETRAIN} --output_dir",
            f"{CLASSIFY} --output_dir",
            f"{CONVERT} --to",
            f"{ADAPT} --output_dir",
            f"{EXTRACT} --output_file",
            f"{LEARN} --output_file",
            f"{RECORDS} --output_file",
            f"{ZIP} --output_file",
            "data_prep.make_sample_data --output_dir",
            f"{EXPORT} --export_dir",
        )
    ),
    *(
        (f"{command}=file://in.txt", "Give the local path without file://")
        for command in (
            f"{LEARN} --output_file=x --input_file",
            f"{RECORDS} --output_file=x --input_file",
            f"{EXTRACT} --output_file=x --input_file",
            f"{CONVERT} --to=x --from",
            "run_scripts.predict --model",
            "run_scripts.export_model --export_dir=x --checkpoint",
            f"{CLASSIFY} --output_dir=x --init_checkpoint",
        )
    ),
    (f"{RECORDS} --output_file=other_work", ".other_work.work/mine would be replaced"),
    (f"{EXTRACT} --output_file=hard.txt", "--output_file hard.txt is an input too"),
    (f"{LEARN} --output_file=link.txt", "--output_file link.txt is an input too"),
    (f"{RECORDS} --output_file=hard.txt", "--output_file hard.txt is an input too"),
    (f"{ZIP} --output_file=glue/RTE.tsv", "--output_file glue/RTE.tsv is an input too"),
    ("data_prep.make_sample_data --output_dir=in.txt", "in.txt is a file"),
    # Features of texts
    (f"{EXTRACT} --output_file=model/new", "is in the folder of the checkpoint model"),
    (
        f"{EXTRACT} --output_file=google/vocab.txt "
        "--init_checkpoint=google/bert_model.ckpt",
        "is in the folder of the checkpoint google/bert_model.ckpt",
    ),
    (
        f"{EXTRACT} --output_file=in.json --bert_config_file=in.json",
        "in.json is an input too",
    ),
    (
        f"{EXTRACT} --vocab_file=v.txt --output_file=v.txt.json",
        "v.txt.json is an input too",
    ),
    (
        f"{EXTRACT} --output_file=x --output_dtype=float16",
        "has no effect with --output_format=js",
    ),
    (f"{EXTRACT} --output_file=x --lines_per_shard=0", "--lines_per_shard=0"),
    (
        f"{EXTRACT} --output_file=old --output_format=npz --lines_per_shard=20",
        "old-00003.npz is a shard of an earlier output with more",
    ),
    (
        f"{EXTRACT} --output_file=/dev/stdout --output_format=npz",
        "instead of /dev/stdout",
    ),
    (
        f"{EXTRACT} --output_file=x --batch_size=0",
        "--batch_size must be at least 1. Received: 0",
    ),
    (
        f"{EXTRACT} --output_file=x --max_seq_length=2",
        "--max_seq_length must be at least 3",
    ),
    # Checkpoints
    (f"{CONVERT} --to=data", "data would be replaced, but contains train.tsv"),
    (f"{CONVERT} --to=data/train.tsv", "data/train.tsv is a file"),
    (
        f"{CONVERT} --to=only_vocabulary",
        "would be replaced, but is not a checkpoint of the dial",
    ),
    (
        f"{CONVERT} --to=google",
        "contains bert_model.ckpt.data-00000-of-00001, which is not a file",
    ),
    (
        f"{CONVERT} --to=steps --dialect=google",
        "several checkpoints, such as model.ckpt-1",
    ),
    (
        f"{CONVERT} --to=notes --dialect=google",
        "contains bert_model.ckpt.notes.txt, which is not",
    ),
    (
        f"{CONVERT} --to=distil --dialect=hugging_face",
        "that of a model of the type 'distilbert'",
    ),
    (
        f"{CONVERT} --to=link_to_model",
        "belongs to the checkpoint that is read from model",
    ),
    (f"{CONVERT} --to=.", "belongs to the checkpoint that is read from model"),
    (
        f"{CONVERT} --to=trained/best",
        "best would be replaced, but belongs to the run in",
    ),
    (f"{EXPORT} --export_dir=trained/checkpoints", "belongs to the run in"),
    (
        f"{CONVERT} --to=new --slots",
        "slots=True needs the dialect google. Received: 'bert-tf'",
    ),
    (f"{CONVERT} --to=new --slots --dialect=google", "model has no moments of Adam"),
    # A run whose inputs are in its own folder
    *(
        (
            f"{program} --output_dir=link_to_run --{flag}",
            "--overwrite removes the run in",
        )
        for program, flag in (
            (PRETRAIN, "init_checkpoint=run/best"),
            (CLASSIFY, "vocab_file=run/best/vocab.txt"),
            (PRETRAIN, "input_file=in.txt,run/best/*.txt"),
            (CLASSIFY, "train_file=run/checkpoints/train.tsv"),
        )
    ),
]


@pytest.fixture
def folder(tmp_path):
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, do_lower_case=True)
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig(**CONFIG), seed=0)
    names = "model", "run/best", "trained/best", "google"
    for name, dialect in zip(names, (*["bert-tf"] * 3, "google"), strict=True):
        bert_tf.save_checkpoint(encoder, tokenizer, tmp_path / name, dialect=dialect)
    bert_tf.save_checkpoint(
        encoder, tokenizer, tmp_path / "stored", dialect="hugging_face"
    )
    for name, source in (("notes", "google"), ("distil", "stored")):
        shutil.copytree(tmp_path / source, tmp_path / name)
    (tmp_path / "notes/bert_model.ckpt.notes.txt").write_text("mine")
    (tmp_path / "distil/config.json").write_text('{"model_type": "distilbert"}')
    write_vocabulary(str(tmp_path / "v.txt"), VOCABULARY, True)
    for name in ("data", "glue", "only_vocabulary", "steps"):
        (tmp_path / name).mkdir()
    for name in ("checkpoint", "model.ckpt-1.index", "model.ckpt-2.index"):
        (tmp_path / "steps" / name).write_text("step")
    settings = to_json_dict(TrainingConfig(num_train_steps=1, num_warmup_steps=0))
    write_json(tmp_path / "trained/training_config.json", settings)
    (tmp_path / "in.txt").write_text("a b\n\nb a\n" * 20)
    (tmp_path / ".other_work.work").mkdir()
    (tmp_path / ".other_work.work/mine").write_text("mine")
    (tmp_path / "link.txt").symlink_to("in.txt")
    os.link(tmp_path / "in.txt", tmp_path / "hard.txt")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link_to_model").symlink_to("model")
    (tmp_path / "link_to_run").symlink_to("run")
    for name in ("in.json", "old-00003.npz"):
        (tmp_path / name).write_text("old")
    (tmp_path / "data/train.tsv").write_text("sentence\tlabel\na\t1\n")
    (tmp_path / "only_vocabulary/vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    rows = "".join(f"{index}\tentailment\n" for index in range(3000))
    (tmp_path / "glue/RTE.tsv").write_text("index\tprediction\n" + rows)
    return tmp_path


def contents(folder):
    """Returns the kind of each path in a folder, and the bytes of each file."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else None,
        )
        for path in sorted(pathlib.Path(folder).rglob("*"))
    }


def commands(lines):
    split = [line.split(" ") for line in lines]
    return [(f"bert_tf.{module}", flags) for module, *flags in split]


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_no_program_may_write_as_a_file(folder, monkeypatch, path):
    monkeypatch.chdir(folder)
    before = contents(folder)
    with refused_with(PATHS[path]):
        check_output_file(path, ["in.txt"])
    with (
        pytest.raises(bert_tf.InputError),
        atomic_files.atomic_replace(path) as temporary,
    ):
        pathlib.Path(temporary).write_text("new")
    assert contents(folder) == before


@pytest.mark.parametrize("path", ["link.txt", "hard.txt", "data/../in.txt"])
def test_an_input_is_not_an_output(folder, monkeypatch, path):
    monkeypatch.chdir(folder)
    with refused(f"output_file {path} is an input too"):
        check_output_file(path, ["model/vocab.txt", "in.txt"])


@pytest.mark.medium
def test_outputs_that_would_replace_something_else_are_refused(folder):
    before = contents(folder)
    results = run_mains(commands(line for line, _ in ROWS), cwd=folder, secs=60)
    for (line, words), result in zip(ROWS, results, strict=True):
        assert result.code == 2, (line, result)
        assert_refused(result, words)
    assert contents(folder) == before


@pytest.mark.medium
def test_links_are_followed_and_stdout_is_written_to(folder):
    (folder / "old.txt").write_text("old")
    (folder / "to_old").symlink_to("old.txt")
    (folder / "to_new").symlink_to("new.txt")
    left = atomic_files.temporary_path(str(folder / "data/records.tfrecord"))
    pathlib.Path(left).write_text("left by a killed process")
    (folder / "to_records").symlink_to("data/records.tfrecord")
    (folder / "to_google").symlink_to("google")
    results = run_mains(
        commands([
            f"{LEARN} --output_file=vocab.txt",
            f"{LEARN} --output_file=to_old",
            f"{LEARN} --output_file=to_new",
            f"{LEARN} --output_file=/dev/stdout",
            f"{EXTRACT} --output_file=features.jsonl",
            f"{EXTRACT} --output_file=/dev/stdout",
            f"{CONVERT} --to=to_google --dialect=google",
            f"{RECORDS} --output_file=to_records --max_seq_length=8 --num_workers=1",
            f"{RECORDS} --output_file=data/records.tfrecord --max_seq_length=8 "
            "--num_workers=1",
        ]),
        cwd=folder,
    )  # fmt: skip
    assert [result.code for result in results] == [0] * len(results), results
    vocabulary = (folder / "vocab.txt").read_text()
    assert (
        (folder / "old.txt").read_text()
        == (folder / "new.txt").read_text()
        == vocabulary
    )
    assert results[3].out == vocabulary and "distinct words" in results[3].err
    assert results[5].out == (folder / "features.jsonl").read_text()
    path = str(folder / "to_records")
    (found,) = manifest.manifests_next_to([path, str(folder / "data/records.tfrecord")])
    assert found.find_shard(path).bytes == os.path.getsize(path)
    assert not list(folder.glob("to_records*.json")) and "complete" in results[8].out
    for name in ("to_old", "to_new", "to_google", "to_records"):
        assert (folder / name).is_symlink(), name
    assert not list(folder.rglob(".*.tmp*"))
