"""Measures the speed and memory of creating pretraining records.

The benchmark measures bert-tf and the TensorFlow Model Garden.

    pip install --no-deps --target /tmp/peer tf-models-official
    python benchmarks/pretraining_data.py --peer=/tmp/peer \
      --input_file=books.txt --vocab_file=vocab.txt --dupe_factor=5

"Peer" is the Model Garden's create_pretraining_data.py. Both programs get the same
text, vocabulary and flags. For each program the benchmark prints wall time, CPU time,
examples per second including start-up, examples per second without start-up
("sustained"), MB of text per second, and the peak memory of all processes of the
program (proportional set size). Then it prints the ratios.

The sustained rate is computed from a smaller and a larger run of the same program. The
difference in the number of examples is divided by the difference in time. The smaller
run of the peer reads a few lines. bert-tf starts fewer processes if the input has only
a few lines. Therefore the smaller run of bert-tf reads one copy of the text, and the
larger run of bert-tf reads --sustained copies.

For bert-tf the benchmark also prints the peak size of the intermediate files. It also
prints the peak memory of bert-tf minus the peak memory of equally many processes that
only import TensorFlow. Without --peer, only bert-tf runs. With --repeat, both programs
read several copies of the text, to check that memory does not grow with the text.
"""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import psutil
from absl import app, flags

flags.DEFINE_string(
    "peer", "", "Folder with the package `official`; empty: measure only bert-tf."
)
flags.DEFINE_string(
    "input_file", None, "Text with one sentence per line.", required=True
)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_integer("dupe_factor", 5, "Number of passes over the text.")
flags.DEFINE_integer("num_workers", os.cpu_count(), "Number of processes of bert-tf.")
flags.DEFINE_integer("repeat", 1, "Number of copies of the text, each in its own file.")
flags.DEFINE_integer(
    "sustained",
    4,
    "Number of copies of the text in the larger run of bert-tf; 0: no such run.",
)

ROOT = pathlib.Path(__file__).parents[1]
# Empty modules replace tf_keras and sentencepiece, which the peer imports but does not
# use for WordPiece.
PEER = """
import sys, types
for name in ("tf_keras", "sentencepiece"):
    sys.modules[name] = types.ModuleType(name)
sys.path.insert(0, {folder!r})
from official.nlp.data import create_pretraining_data as program
from absl import app
app.run(program.main)
"""


def memory_bytes(process_id: int) -> int:
    """Returns the proportional set size of a process and its descendants, in bytes."""
    total = 0
    try:
        root = psutil.Process(process_id)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        # A process may end before its memory is read.
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def run_and_measure(
    command: list[str], folder: pathlib.Path
) -> tuple[float, float, int, int]:
    """Returns wall and CPU seconds, and peak bytes of memory and intermediate files."""
    peak = disk = 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, env=environment
        )

        def watch() -> None:
            nonlocal peak, disk
            while process.poll() is None:
                peak = max(peak, memory_bytes(process.pid))
                disk = max(disk, intermediate_bytes(folder))
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


def import_memory_bytes(num_processes: int) -> int:
    """Returns the peak bytes of memory of processes that only import TensorFlow."""
    program = (
        "import multiprocessing as m, time\n"
        "def f(barrier):\n"
        " import tensorflow, tensorflow_text; barrier.wait(); time.sleep(3)\n"
        "if __name__ == '__main__':\n"
        f" c = m.get_context('spawn'); n = {num_processes}; barrier = c.Barrier(n)\n"
        " started = [c.Process(target=f, args=(barrier,)) for _ in range(n)]\n"
        " [each.start() for each in started]; [each.join() for each in started]\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        return run_and_measure(
            [sys.executable, file.name], pathlib.Path(file.name).parent / "none"
        )[2]


def count_records(path: pathlib.Path) -> int:
    import tensorflow as tf

    return sum(len(batch) for batch in tf.data.TFRecordDataset(str(path)).batch(4096))


def intermediate_bytes(folder: pathlib.Path) -> int:
    """Returns the total bytes of bert-tf's intermediate files in `folder`."""
    total = 0
    for path in folder.rglob(".*.work/*/*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def measure(
    name: str, command: list[str], inputs: list[str], folder: pathlib.Path
) -> dict:
    """Runs a program, prints and returns its measurements, and removes its output."""
    values = flags.FLAGS
    common = [
        f"--vocab_file={values.vocab_file}",
        f"--dupe_factor={values.dupe_factor}",
    ]
    output = folder / "records.tfrecord"
    secs, cpu, peak, disk = run_and_measure(
        [
            *command,
            *common,
            f"--input_file={','.join(inputs)}",
            f"--output_file={output}",
        ],
        folder,
    )
    examples = count_records(output)
    figures = {
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
    print(
        name,
        *(f"{key}={value:,.1f}" for key, value in figures.items()),
        sep="\n  ",
        flush=True,
    )
    return figures


def sustained_rate(larger: dict, smaller: dict) -> float:
    """Returns the additional examples of a larger run per additional second."""
    return (larger["examples"] - smaller["examples"]) / (
        larger["secs"] - smaller["secs"]
    )


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
        tiny.write_text(
            "One sentence.\nAnother one.\n\nA document.\nIts end.\n", encoding="utf-8"
        )
        main_file = str(ROOT / "data_prep/create_pretraining_data.py")
        command = [sys.executable, main_file, f"--num_workers={values.num_workers}"]
        ours = measure("bert-tf", command, inputs[: values.repeat], folder)
        above = ours["peak_memory_mb"] - import_memory_bytes(values.num_workers) / 1e6
        print(
            f"bert-tf, memory above importing TensorFlow in each process: {above:.0f} "
            "MB"
        )
        rate = 0.0
        if values.sustained > 1:
            rate = sustained_rate(
                measure("bert-tf, more text", command, inputs, folder), ours
            )
            print(f"bert-tf, sustained examples per second: {rate:,.0f}")
        if not values.peer:
            return
        program = [sys.executable, "-c", PEER.format(folder=values.peer)]
        few = measure("peer, a few lines", program, [str(tiny)], folder)
        peer = measure("peer", program, inputs[: values.repeat], folder)
        print(f"peer, sustained examples per second: {sustained_rate(peer, few):,.0f}")
        for key in ("secs", "cpu_secs", "peak_memory_mb"):
            print(f"peer / bert-tf, {key}: {peer[key] / ours[key]:.1f}")
        ratio = ours["examples_per_sec"] / peer["examples_per_sec"]
        print(f"bert-tf / peer, examples_per_sec: {ratio:.1f}")
        print(f"bert-tf / peer, sustained: {rate / sustained_rate(peer, few):.1f}")


if __name__ == "__main__":
    app.run(main)
