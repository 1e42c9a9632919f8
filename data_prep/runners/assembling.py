"""Shards that grow while their parts are still being made.

Processes make the parts; threads of this process put each behind the one before it, so that the
last shard is done soon after its last part. They copy, hash and compress, which Python lets run
beside each other.

Imports `shards`, `shuffling`.
"""

import concurrent.futures
import json
import os
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType

from data_prep.runners import shards, shuffling


class StoppedError(Exception):
    """The parts that are missing will not come."""


class Arrivals:
    """Which parts are there; threads wait for the next one."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._changed = threading.Condition()
        self._stopped = False

    def add(self, path: str) -> None:
        """A part is there."""
        with self._changed:
            self._paths.add(path)
            self._changed.notify_all()

    def stop(self) -> None:
        """No more will come; who waits gets `StoppedError`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def in_order(self, paths: Sequence[str]) -> Iterator[str]:
        """Each of the paths, when it is there."""
        for path in paths:
            with self._changed:
                while path not in self._paths:
                    if self._stopped:
                        raise StoppedError
                    self._changed.wait()
            yield path


class Assembly:
    """Assembles shards in threads, as a context manager; at its end all are done.

    Args:
        threads: How many shards grow at the same time.
        compression: "" or "gzip".
    """

    def __init__(self, threads: int, compression: str) -> None:
        self.arrivals = Arrivals()
        self._compression = compression
        self._threads = concurrent.futures.ThreadPoolExecutor(threads)
        self._running: list[concurrent.futures.Future[None]] = []

    def start(self, parts: Sequence[str], name: str, marker: str) -> None:
        """Assembles a shard from parts that are there or will be.

        Args:
            parts: Paths, in order; removed when the shard is there.
            name: The shard.
            marker: File that then says so: its bytes and checksum.
        """
        self._running.append(self._threads.submit(self._assemble, parts, name, marker))

    def check(self) -> None:
        """Raises what a shard that cannot be assembled raised."""
        for future in [future for future in self._running if future.done()]:
            self._running.remove(future)
            future.result()

    def _assemble(self, parts: Sequence[str], name: str, marker: str) -> None:
        made = shards.assemble(self.arrivals.in_order(parts), name, self._compression)
        shuffling.write_small(marker, json.dumps(made).encode())
        for path in parts:
            os.remove(path)

    def __enter__(self) -> "Assembly":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.arrivals.stop()
        self._threads.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            self.check()
