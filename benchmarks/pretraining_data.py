"""Pretraining records: ours beside the Model Garden's create_pretraining_data.py, in one run.

    pip install --no-deps --target /tmp/peer tf-models-official
    python benchmarks/pretraining_data.py --peer=/tmp/peer \
      --input_file=books.txt --vocab_file=vocab.txt --dupe_factor=5

Both get the same text, vocabulary and flags. Prints, for each, seconds, seconds of all cores,
examples a second with start-up and sustained, text a second, and the largest memory of all its
processes (proportional set size); then the ratios. Sustained is what further text costs: the
difference to a smaller run of the same command, for the peer on a few lines; for ours, which starts
fewer processes for a few lines, the difference between the text --sustained times and once. Ours
also prints the memory above that of as many processes that only import TensorFlow, and the largest
size of its intermediate files. Without --peer ours runs alone; --repeat gives it the text several
times, to see that memory does not grow.
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
flags.DEFINE_integer("sustained", 4, "Copies of the text in the larger run of ours; 0: none.")

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


def timed(command: list[str], folder: pathlib.Path) -> tuple[float, float, int, int]:
    """Seconds, seconds of all cores, largest memory and largest intermediate files in bytes."""
    peak = disk = 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)

        def watch() -> None:
            nonlocal peak, disk
            while process.poll() is None:
                peak = max(peak, memory_bytes(process.pid))
                disk = max(disk, folder_bytes(folder))
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
    return secs, cpu, peak, disk


def import_memory_bytes(processes_: int) -> int:
    """Of a process with that many children that have imported TensorFlow and do nothing."""
    program = (
        "import multiprocessing as m, time\n"
        "def f(all_of_them):\n"
        " import tensorflow, tensorflow_text; all_of_them.wait(); time.sleep(3)\n"
        "if __name__ == '__main__':\n"
        f" c = m.get_context('spawn'); n = {processes_}; barrier = c.Barrier(n)\n"
        " started = [c.Process(target=f, args=(barrier,)) for _ in range(n)]\n"
        " [each.start() for each in started]; [each.join() for each in started]\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        return timed([sys.executable, file.name], pathlib.Path(file.name).parent / "none")[2]


def count(path: pathlib.Path) -> int:
    import tensorflow as tf

    return sum(len(batch) for batch in tf.data.TFRecordDataset(str(path)).batch(4096))


def folder_bytes(folder: pathlib.Path) -> int:
    total = 0
    for path in folder.rglob(".*.work/*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def measure(name: str, command: list[str], inputs: list[str], folder: pathlib.Path) -> dict:
    """Runs a program on a text, and takes what it made away."""
    values = flags.FLAGS
    common = [f"--vocab_file={values.vocab_file}", f"--dupe_factor={values.dupe_factor}"]
    output = folder / "records.tfrecord"
    secs, cpu, peak, disk = timed(
        [*command, *common, f"--input_file={','.join(inputs)}", f"--output_file={output}"], folder
    )
    examples = count(output)
    found = {
        "secs": secs,
        "cpu_secs": cpu,
        "examples": examples,
        "examples_per_sec": examples / secs,
        "text_mb_per_sec": sum(map(os.path.getsize, inputs)) / 1e6 / secs,
        "peak_memory_mb": peak / 1e6,
        "intermediate_mb": disk / 1e6,
        "records_mb": output.stat().st_size / 1e6,
    }
    shutil.rmtree(folder)
    folder.mkdir()
    print(name, *(f"{key}={value:,.1f}" for key, value in found.items()), sep="\n  ", flush=True)
    return found


def sustained(larger: dict, smaller: dict) -> float:
    """Examples a second that further text makes."""
    return (larger["examples"] - smaller["examples"]) / (larger["secs"] - smaller["secs"])


def main(_: list[str]) -> None:
    values = flags.FLAGS
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        text, folder = pathlib.Path(name) / "text", pathlib.Path(name) / "out"
        text.mkdir()
        folder.mkdir()
        for copy in range(values.repeat * max(values.sustained, 1)):
            shutil.copy(values.input_file, text / f"{copy:04d}.txt")
        inputs = sorted(map(str, text.iterdir()))
        tiny = pathlib.Path(name) / "tiny.txt"
        tiny.write_text("One sentence.\nAnother one.\n\nA document.\nIts end.\n", encoding="utf-8")
        main_file = str(ROOT / "data_prep/create_pretraining_data.py")
        command = [sys.executable, main_file, f"--num_workers={values.num_workers}"]
        ours = measure("ours", command, inputs[: values.repeat], folder)
        above = ours["peak_memory_mb"] - import_memory_bytes(values.num_workers) / 1e6
        print(f"ours, memory above importing TensorFlow {values.num_workers} times: {above:.0f} MB")
        rate = 0.0
        if values.sustained > 1:
            rate = sustained(measure("ours, more text", command, inputs, folder), ours)
            print(f"ours, sustained examples a second: {rate:,.0f}")
        if not values.peer:
            return
        program = [sys.executable, "-c", PEER.format(folder=values.peer)]
        few = measure("peer, a few lines", program, [str(tiny)], folder)
        peer = measure("peer", program, inputs[: values.repeat], folder)
        print(f"peer, sustained examples a second: {sustained(peer, few):,.0f}")
        for key in ("secs", "cpu_secs", "peak_memory_mb"):
            print(f"peer / ours, {key}: {peer[key] / ours[key]:.1f}")
        ratio = ours["examples_per_sec"] / peer["examples_per_sec"]
        print(f"ours / peer, examples_per_sec: {ratio:.1f}")
        print(f"ours / peer, sustained: {rate / sustained(peer, few):.1f}")


if __name__ == "__main__":
    app.run(main)
