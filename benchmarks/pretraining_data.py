"""Pretraining records: ours beside the Model Garden's create_pretraining_data.py, in one run.

    pip install --no-deps --target /tmp/peer tf-models-official
    python benchmarks/pretraining_data.py --peer=/tmp/peer \
      --input_file=books.txt --vocab_file=vocab.txt --dupe_factor=5

Both get the same text, vocabulary and flags. Prints, for each, seconds, seconds of all cores,
examples a second with and without start-up (the time of the same command on a few lines), text a
second, and the largest memory of all its processes (proportional set size); then the ratios. Ours
also prints the memory above that of as many processes that only import TensorFlow. Without --peer
ours runs alone; --repeat gives it the text several times, to see that memory does not grow.
"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from absl import app, flags

flags.DEFINE_string("peer", "", "Folder with the package `official`; empty: ours alone.")
flags.DEFINE_string("input_file", None, "Text, a sentence a line.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_integer("dupe_factor", 5, "Passes.")
flags.DEFINE_integer("num_workers", os.cpu_count(), "Processes of ours.")
flags.DEFINE_integer("repeat", 1, "Copies of the text, as files of their own.")

ROOT = pathlib.Path(__file__).parents[1]
# The peer imports these but needs nothing of them for plain WordPiece.
PEER = """
import sys, types
for name in ("tf_keras", "sentencepiece"):
    sys.modules[name] = types.ModuleType(name)
sys.path.insert(0, {folder!r})
from official.nlp.data import create_pretraining_data as program
from absl import app
app.run(program.main)
"""


def processes(root: int) -> list[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, at = [root], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def memory_bytes(root: int) -> int:
    total = 0
    for pid in processes(root):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(x.split()[1]) << 10 for x in text.splitlines() if x.startswith("Pss:"))
    return total


def timed(command: list[str]) -> tuple[float, float, int]:
    """Seconds, seconds of all cores, and the largest memory in bytes."""
    peak = 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)

        def watch() -> None:
            nonlocal peak
            while process.poll() is None:
                peak = max(peak, memory_bytes(process.pid))
                time.sleep(0.5)

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        secs = time.monotonic() - start
        watcher.join()
        if code:
            log.seek(0)
            sys.exit(log.read().decode()[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return secs, cpu, peak


def import_memory_bytes(processes_: int) -> int:
    """Of a process with that many children that have imported TensorFlow and do nothing."""
    program = (
        "import multiprocessing as m, time\n"
        "def f(_):\n import tensorflow, tensorflow_text; time.sleep(4)\n"
        f"if __name__ == '__main__': m.get_context('spawn').Pool({processes_}).map(f, range("
        f"{processes_}))"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        return timed([sys.executable, file.name])[2]


def count(path: pathlib.Path) -> int:
    import tensorflow as tf

    return sum(len(batch) for batch in tf.data.TFRecordDataset(str(path)).batch(4096))


def measure(name: str, command: list[str], inputs: str, tiny: str, folder: pathlib.Path) -> dict:
    """Runs a program on a few lines and on the text."""
    values = flags.FLAGS
    common = [f"--vocab_file={values.vocab_file}", f"--dupe_factor={values.dupe_factor}"]
    start_up, _, _ = timed([*command, *common, f"--input_file={tiny}", f"--output_file={folder}/t"])
    output = folder / f"{name}.tfrecord"
    secs, cpu, peak = timed(
        [*command, *common, f"--input_file={inputs}", f"--output_file={output}"]
    )
    size = sum(os.path.getsize(path) for path in inputs.split(","))
    examples = count(output)
    shutil.rmtree(folder)
    folder.mkdir()
    found = {
        "secs": secs,
        "cpu_secs": cpu,
        "start_up_secs": start_up,
        "examples": examples,
        "examples_per_sec": examples / secs,
        "sustained_examples_per_sec": examples / max(secs - start_up, 1e-9),
        "text_mb_per_sec": size / 1e6 / secs,
        "peak_memory_mb": peak / 1e6,
    }
    print(name, *(f"{key}={value:,.1f}" for key, value in found.items()), sep="\n  ", flush=True)
    return found


def main(_: list[str]) -> None:
    values = flags.FLAGS
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        text = pathlib.Path(name) / "text"
        folder = pathlib.Path(name) / "out"
        text.mkdir()
        folder.mkdir()
        for copy in range(values.repeat):
            shutil.copy(values.input_file, text / f"{copy:04d}.txt")
        inputs = ",".join(map(str, sorted(text.iterdir())))
        tiny = pathlib.Path(name) / "tiny.txt"
        tiny.write_text("One sentence.\nAnother one.\n\nA document.\nIts end.\n", encoding="utf-8")
        main_file = str(ROOT / "data_prep/create_pretraining_data.py")
        command = [sys.executable, main_file, f"--num_workers={values.num_workers}"]
        ours = measure("ours", command, inputs, str(tiny), folder)
        above = ours["peak_memory_mb"] - import_memory_bytes(values.num_workers) / 1e6
        print(f"ours, memory above importing TensorFlow {values.num_workers} times: {above:.0f} MB")
        if not values.peer:
            return
        program = [sys.executable, "-c", PEER.format(folder=values.peer)]
        peer = measure("peer", program, inputs, str(tiny), folder)
        for key in ("secs", "cpu_secs", "peak_memory_mb"):
            print(f"peer / ours, {key}: {peer[key] / ours[key]:.1f}")
        for key in ("examples_per_sec", "sustained_examples_per_sec"):
            print(f"ours / peer, {key}: {ours[key] / peer[key]:.1f}")


if __name__ == "__main__":
    app.run(main)
