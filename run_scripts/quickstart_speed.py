"""Chooses the number of pretraining steps of the quickstart from the speed of this machine.

The quickstart first trains for `MEASURED_STEPS` steps in a folder of its own, because the
learning-rate schedule of the pretraining run needs the number of steps from the start.
"""

import dataclasses
import json
import pathlib

from bert_tf.files import remove, write_json

# The first 20 steps include the tracing of the graph and the first fill of the input pipeline. The
# speed is that of the 20 steps after them.
LOG_STEPS, MEASURED_STEPS = 20, 40
RESULT = "pretraining_steps.json"
# The number of steps is a multiple of this number, so that evaluations and checkpoints are evenly
# spaced and warm-up is exactly a tenth of the steps.
_MULTIPLE = 60


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a run of the quickstart.

    Attributes:
        secs: Seconds in which the whole quickstart should end.
        min_train_steps: Smallest number of pretraining steps, a multiple of 60. With this number, a
            slow machine may take longer than `secs`.
        max_train_steps: Largest number of pretraining steps, a multiple of 60.
        share: The share of `secs` for pretraining.
    """

    secs: float
    min_train_steps: int
    max_train_steps: int
    share: float = 0.45

    def choose_steps(self, steps_per_sec: float) -> int:
        """Returns the number of pretraining steps for a speed."""
        steps = int(self.share * self.secs * steps_per_sec) // _MULTIPLE * _MULTIPLE
        return min(max(steps, self.min_train_steps), self.max_train_steps)


def store_steps(folder: str, limits: Limits, batch_size: int) -> str:
    """Chooses the number of steps after the measurement, and writes it to the file `RESULT`.

    Args:
        folder: The output folder of the quickstart. The measurement is in the subfolder "speed",
            which is removed.
        limits: The limits of the run.
        batch_size: Number of examples in a training batch.

    Returns:
        A line for the user: the number of steps and the expected time.
    """
    text = pathlib.Path(folder, "speed/metrics.jsonl").read_text("utf-8")
    lines = map(json.loads, text.splitlines())
    logged = {line["step"]: line for line in lines if line["kind"] == "train"}
    rate = logged[MEASURED_STEPS]["examples_per_sec"] / batch_size
    steps = limits.choose_steps(rate)
    write_json(f"{folder}/{RESULT}", {"steps": steps, "steps_per_sec": rate})
    remove(f"{folder}/speed")
    minutes = max(1, round(steps / rate / limits.share / 60))
    return (
        f"{steps:,} pretraining steps (at most {limits.max_train_steps:,}), because this machine "
        f"runs {rate:.1f} steps/s. The whole quickstart takes about {minutes} minutes."
    )
