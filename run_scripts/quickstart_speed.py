"""Chooses the number of pretraining steps of the quickstart from the speed of this machine.

The quickstart first trains for `MEASURED_STEPS` steps in a folder of its own, because the
learning-rate schedule of the pretraining run needs the number of steps from the start.
"""

import dataclasses
import json
import shutil

from bert_tf import json_files
from bert_tf.files import read_text, write_json

# The first 10 steps include the tracing of the graph and the first fill of the input pipeline. The
# speed is that of the 20 steps after them.
LOG_STEPS, MEASURED_STEPS = 10, 30
RESULT = "pretraining_steps.json"
# After the measurement, four programs start: pretraining, fine-tuning, export and answers.
_PROGRAMS = 4
# The forward pass of an evaluation takes about a third of the time of a training step.
_STEPS_PER_EVALUATION_BATCH = 1 / 3
# The number of steps is a multiple of this number, so that evaluations and checkpoints are evenly
# spaced and warm-up is exactly a tenth of the steps.
_MULTIPLE = 60
# The part of the time limit that is planned; the rest allows for errors of the estimate.
_PLANNED = 0.9


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a run of the quickstart.

    Attributes:
        secs: Seconds in which the whole quickstart should end.
        min_train_steps: Smallest number of pretraining steps, a multiple of 60. With this number, a
            slow machine may take longer than `secs`.
        max_train_steps: Largest number of pretraining steps, a multiple of 60.
    """

    secs: float
    min_train_steps: int
    max_train_steps: int


@dataclasses.dataclass(frozen=True)
class RemainingWork:
    """The work after the measurement, except the pretraining steps.

    Attributes:
        evaluation_batches: Number of held-out batches in all evaluations of pretraining.
        fine_tuning_batches: Number of fine-tuning batches of the size of a pretraining batch.
    """

    evaluation_batches: float
    fine_tuning_batches: float


def choose_steps(
    limits: Limits, work: RemainingWork, spent_secs: float, start_secs: float, secs_per_step: float
) -> tuple[int, float]:
    """Chooses the number of pretraining steps.

    Args:
        limits: The limits of the run.
        work: The work other than pretraining steps.
        spent_secs: Seconds of the stages so far.
        start_secs: Seconds from the start of a program to its first step.
        secs_per_step: Seconds of a pretraining step.

    Returns:
        The number of steps, and the expected seconds of the whole quickstart.
    """
    batches = work.evaluation_batches * _STEPS_PER_EVALUATION_BATCH + work.fine_tuning_batches
    others = spent_secs + _PROGRAMS * start_secs + batches * secs_per_step
    steps = int((_PLANNED * limits.secs - others) / secs_per_step) // _MULTIPLE * _MULTIPLE
    steps = min(max(steps, limits.min_train_steps), limits.max_train_steps)
    return steps, others + steps * secs_per_step


def secs_per_step(run_folder: str, batch_size: int) -> float:
    """Returns the seconds of a step after the first `LOG_STEPS` steps of the measurement.

    Args:
        run_folder: The output folder of the measurement.
        batch_size: Number of examples in a training batch.
    """
    lines = map(json.loads, read_text(f"{run_folder}/metrics.jsonl").splitlines())
    rates = [
        line["examples_per_sec"]
        for line in lines
        if line["kind"] == "train" and line["step"] > LOG_STEPS
    ]
    return sum(batch_size / rate for rate in rates) / len(rates)


def store_steps(
    folder: str,
    limits: Limits,
    work: RemainingWork,
    batch_size: int,
    earlier_secs: float,
    measurement_secs: float,
) -> str:
    """Chooses the number of steps after the measurement, and writes it to the file `RESULT`.

    Args:
        folder: The output folder of the quickstart. The measurement is in the subfolder "speed",
            which is removed.
        limits: The limits of the run.
        work: The work other than pretraining steps.
        batch_size: Number of examples in a training batch.
        earlier_secs: Seconds of the stages before the measurement.
        measurement_secs: Seconds of the measurement, with the start of the program.

    Returns:
        A line for the user: the number of steps and the expected time.
    """
    step_secs = secs_per_step(f"{folder}/speed", batch_size)
    start_secs = max(0.0, measurement_secs - MEASURED_STEPS * step_secs)
    spent_secs = earlier_secs + measurement_secs
    steps, total = choose_steps(limits, work, spent_secs, start_secs, step_secs)
    write_json(f"{folder}/{RESULT}", {"steps": steps, "steps_per_sec": 1 / step_secs})
    shutil.rmtree(f"{folder}/speed")
    return (
        f"{steps:,} pretraining steps (at most {limits.max_train_steps:,}), because this machine "
        f"runs {1 / step_secs:.1f} steps/s. The whole quickstart takes about "
        f"{max(1, round(total / 60))} minutes."
    )


def stored_steps(folder: str) -> tuple[int, float]:
    """Returns the stored number of pretraining steps, and the measured steps per second.

    Raises:
        InputError: The file is damaged.
    """
    schema = {"steps": json_files.LENGTH, "steps_per_sec": json_files.NUMBER}
    stored = json_files.read(f"{folder}/{RESULT}", schema, own=True, required=True)
    return stored["steps"], stored["steps_per_sec"]
