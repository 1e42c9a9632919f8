"""Handles Ctrl-C and SIGTERM: after the first signal, the run saves a checkpoint and ends."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn


@contextlib.contextmanager
def record_stop_signals() -> Iterator[list[int]]:
    """Yields a list to which the number of the first stop signal is appended.

    A second signal of the same kind has its normal effect.
    """
    received: list[int] = []

    def record(number: int, _: Any) -> None:
        received.append(number)
        signal.signal(number, previous[number])
        print("Stopping after this step. Repeat the signal to stop at once.", file=sys.stderr)

    numbers = (int(signal.SIGINT), int(signal.SIGTERM))
    previous = {number: signal.signal(number, record) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def exit_after_signal(number: int, step: int, overwrite: bool) -> NoReturn:
    """Prints how to resume, and exits with the code 128 + `number`, the number of the signal."""
    command = "the same command without --overwrite" if overwrite else "the same command"
    print(f"Stopped at step {step}. To resume, give {command}.", file=sys.stderr)
    sys.exit(128 + number)
