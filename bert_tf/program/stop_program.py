"""Ends a program after SIGTERM or SIGHUP with `SystemExit`, so that it cleans up."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType


class StopSignals:
    """Raises `SystemExit` when the program receives SIGTERM or SIGHUP.

    Attributes:
        received: The number of the first signal, 0 before.
    """

    def __init__(self) -> None:
        self.received = 0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handles the signals until the end of the context.

        After a signal, the context ends with `SystemExit` with the code 128 + the
        number of the signal, whatever its block raised: in a Keras layer, the exception
        becomes a TypeError. SIGHUP stays ignored in a program that `nohup` started.
        """
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._handle)
        try:
            yield
        except BaseException:
            if not self.received:
                raise
        if self.received:
            sys.exit(128 + self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = self.received or number
        sys.exit(128 + self.received)
