"""Ends a program after SIGTERM or SIGHUP, also if a library drops the exception."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

_RETRY_SECS = 1.0


class StopSignals:
    """Raises `SystemExit` when the program receives SIGTERM or SIGHUP.

    Python calls a signal handler between any two instructions of the main thread. If these are in a
    callback of TensorFlow or of the import system, the exception is ignored; in a Keras layer, it
    becomes a TypeError. So the handler raises the exception every second until the program ends,
    except while the program cleans up because of it.

    Attributes:
        received: The number of the first signal, 0 before.
    """

    def __init__(self) -> None:
        self.received = 0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handles the signals until the end of the context.

        After a signal, the context ends with `SystemExit` with the code 128 + the number of the
        signal, whatever its block raised. SIGHUP stays ignored in a program that `nohup` started.
        """
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._handle)
        try:
            yield
        except BaseException:
            if not self.received:
                raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.received:
            sys.exit(128 + self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        is_retry = number == signal.SIGALRM
        if not self.received:
            self.received = number
            signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, _RETRY_SECS)
        if not is_retry or not _is_ending():
            sys.exit(128 + self.received)


def _is_ending() -> bool:
    """Whether the code that runs is called because of a `SystemExit`, such as a `finally` block."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, SystemExit):
        error = error.__context__
    return error is not None
