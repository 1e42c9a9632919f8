"""`Devices`: the devices and processes of a run, on the backend of Keras."""

import contextlib
from collections.abc import Sequence
from typing import Any

from bert_tf.errors import InputError


class Devices:
    """The devices of a run, and communication between its processes.

    Each backend has a subclass. All processes call `sum` in the same order, so that all
    decide the same.

    Attributes:
        replicas: The number of devices of all processes, among which each global batch
            is divided.
        index: The index of this process. The process with the index 0 is the chief, the
            only one that writes files.
        count: The number of processes.
        kind: The backend and its devices, for the log.
        connection_errors: The exceptions that a process raises if another one ended.
    """

    replicas = 1
    index = 0
    count = 1
    kind = ""
    connection_errors: tuple[type[Exception], ...] = ()

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.index == 0

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which models and optimizers are built."""
        return contextlib.nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each value over all processes; waits until all have called `sum`."""
        return list(values)

    def check_equal(self, step: int, folder: str) -> None:
        """Raises `InputError` if another worker resumes from a different step."""
        workers, total = self.sum([1, step])
        if round(total) != round(workers) * step:
            raise InputError(
                f"The workers read different checkpoints from {folder}: this worker is "
                f"at step {step}. Give an output_dir on storage that all workers share."
            )

    def start_profile(self, folder: str) -> None:
        """Starts a profile for TensorBoard."""
        raise NotImplementedError

    def stop_profile(self) -> None:
        """Ends the profile and writes it."""
        raise NotImplementedError
