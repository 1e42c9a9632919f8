"""Programs that are killed at any change of a file: the same command repairs it."""

import json
import signal

import pytest
import tiny_bert
from run_programs import run_python

import bert_tf

# Runs a program in child processes. Each child is killed before one flush or renaming
# of a file, the first child before the first one, and so on; after each kill the
# program runs again.
DRIVER = """
import importlib, json, os, shutil, signal, sys
import tensorflow_text
from bert_tf.storage import atomic_files
import bert_tf.conversion, bert_tf.feature_extraction.feature_files, bert_tf.export.api

module, argv, every = json.loads(sys.argv[1])
main = importlib.import_module(module)


def run(kill_at):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    changes = 0

    def with_kill(function):
        def call(*args, **kwargs):
            nonlocal changes
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            changes += 1
            return function(*args, **kwargs)

        return call

    atomic_files._sync_entry = with_kill(atomic_files._sync_entry)
    os.rename, os.replace = with_kill(os.rename), with_kill(os.replace)
    sys.argv = [main.__file__, *argv]
    main.run()
    os._exit(0)


def state():
    walk = os.walk(".")
    paths = (os.path.join(folder, name) for folder, _, names in walk for name in names)
    return {os.path.relpath(path): open(path, "rb").read().hex() for path in paths}


shutil.copytree(".", "../before")
kill_at = 0
while True:
    code = run(kill_at)
    leftovers = sum(".tmp" in path for path in state())
    if code == 0:
        break
    again = run(None)
    print("RESULT " + json.dumps([code, leftovers, again, state()]), flush=True)
    os.chdir("..")
    shutil.rmtree("work"), shutil.copytree("before", "work")
    os.chdir("work")
    kill_at += every
print("RESULT " + json.dumps([code, leftovers, 0, state()]), flush=True)
"""
CONFIG = bert_tf.BertConfig(**tiny_bert.CONFIG)
# For each program: its flags, and the number of changes of files from one kill to the
# next.
PROGRAMS = {
    "run_scripts.convert_checkpoint": ("--from=model --to=out --dialect=google", 4),
    "data_prep.train_vocabulary": (
        "--input_file=in.txt --output_file=out --vocab_size=20 "
        "--num_unused_tokens=0", 1,
    ),
    "run_scripts.extract_features": (
        "--input_file=in.txt --output_file=out --output_format=npz "
        "--init_checkpoint=model --layers=-1 --max_seq_length=8 "
        "--lines_per_shard=25", 1,
    ),
    "run_scripts.adapt_vocabulary": (
        "--init_checkpoint=model --input_file=in.txt --output_dir=out", 4,
    ),
    "run_scripts.export_model": ("--checkpoint=model --export_dir=out", 9),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_command_of_a_killed_program_gives_the_same_bytes(tmp_path, program):
    flags, every = PROGRAMS[program]
    work = tmp_path / "work"
    work.mkdir()
    tokenizer = bert_tf.BertTokenizer(tiny_bert.VOCABULARY, do_lower_case=True)
    encoder = bert_tf.BertEncoder(CONFIG, seed=0)
    bert_tf.save_checkpoint(encoder, tokenizer, work / "model")
    (work / "in.txt").write_text("a b\n\nb ac\n" * 20)
    if program.endswith("convert_checkpoint"):  # replaces an earlier checkpoint
        old = bert_tf.BertEncoder(CONFIG, seed=1)
        bert_tf.save_checkpoint(old, tokenizer, work / "out", dialect="google")
    request = json.dumps([f"bert_tf.{program}", flags.split(" "), every])
    done = run_python("-c", DRIVER, request, cwd=work, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    *killed, (code, leftovers, _, expected) = [json.loads(line[7:]) for line in lines]
    assert (code, leftovers) == (0, 0)
    assert any(path.startswith("out") for path in expected)
    assert len(killed) >= 3 and any(count for _, count, _, _ in killed)
    for code, _, again, files in killed:
        assert (code, again) == (-signal.SIGKILL, 0)
        # An export that was killed after its last renaming is complete, so the next one
        # has the next number.
        assert {
            path: files[path] for path in files if not path.startswith("out/2/")
        } == expected
