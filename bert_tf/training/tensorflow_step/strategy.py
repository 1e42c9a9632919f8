"""The strategy of a run on TensorFlow: its devices, and the other workers."""

import contextlib
import functools
import json
import os
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training.devices import Devices
from bert_tf.training.training_config import RuntimeConfig

# The types of tasks of a run, in the order of their processes.
_WORKERS = ("chief", "worker")


@functools.cache
def make_strategy(runtime: RuntimeConfig) -> tf.distribute.Strategy:
    """Returns the strategy in whose scope model and optimizer must be built.

    A process can connect to the other workers or to a TPU only once, and only before
    TensorFlow runs its first operation. A main program therefore calls this function
    first; later calls with equal settings return the same strategy. The strategy
    one_device uses the first GPU, or the CPU if there is no GPU.

    Raises:
        InputError: This machine has fewer than `num_gpus` devices, there is no valid
            TF_CONFIG, or the TPU cannot be used.
    """
    kind = runtime.distribution_strategy
    if runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    if kind == "one_device":
        return tf.distribute.get_strategy()

    if kind == "multi_worker_mirrored":
        # Without TF_CONFIG, TensorFlow would start a run of one machine.
        received = os.environ.get("TF_CONFIG", "")
        if problem := _problem_of_tf_config(received):
            raise InputError(
                f"multi_worker_mirrored needs the environment variable TF_CONFIG on "
                'each machine, for example {"cluster": {"worker": ["host1:port", '
                '"host2:port"]}, "task": {"type": "worker", "index": 0}}. Received: '
                f"{received!r:.500}, where {problem}."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()

    if kind == "tpu":
        return _tpu_strategy(runtime)

    listed = tf.config.list_logical_devices
    devices = listed("GPU") or listed("CPU")
    if runtime.num_gpus > len(devices):
        raise InputError(
            f"num_gpus is {runtime.num_gpus}, but this machine has {len(devices)} "
            "devices."
        )
    names = [device.name for device in devices[: runtime.num_gpus or None]]
    return tf.distribute.MirroredStrategy(names)


def _problem_of_tf_config(text: str) -> str:
    """Describes the error in a value of TF_CONFIG; returns "" if there is none."""
    try:
        values = json.loads(text)
        cluster, task = values["cluster"], values["task"]
        kind, index = task["type"], int(task["index"])
        workers = {each: cluster[each] for each in _WORKERS if each in cluster}
        addresses = [each for group in workers.values() for each in group]
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return "cluster, task, type or index is missing or has another form"

    # TensorFlow would wait for ever, or its error would not name the variable.
    if others := {*cluster} - {*_WORKERS, "evaluator"}:
        return f"cluster has {', '.join(sorted(others))}, which it must not have"
    if len(workers.get("chief", "")) > 1:
        return "chief must have one address"
    if kind not in [*workers]:
        return f"type must be {' or '.join(workers) or 'worker, and in cluster'}"
    if not 0 <= index < len(workers[kind]):
        return f"index must be below the number of addresses of {kind}"
    if not all(re.fullmatch(r".+:\d+", str(each)) for each in addresses):
        return "an address is not of the form host:port"
    return ""


def _tpu_strategy(runtime: RuntimeConfig) -> tf.distribute.Strategy:
    name = runtime.tpu_name or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            name, runtime.tpu_zone or None, runtime.gcp_project or None
        )
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)

    # The exception type depends on whether the TPU is found by name, by address or on
    # this machine.
    except Exception as error:
        reason = str(error).split(". ")[0].split("\n")[0] or type(error).__name__
        raise InputError(
            f"The TPU {name!r} cannot be used: {reason}. Check tpu_name, tpu_zone and "
            "gcp_project, and that the tensorflow-tpu package, which exists up to "
            "TensorFlow 2.20, is installed on the TPU's machine. Or give backend=jax."
        ) from error


class TensorFlowDevices(Devices):
    """The replicas and workers of `make_strategy(runtime)`."""

    connection_errors = (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
    )

    def __init__(self, runtime: RuntimeConfig) -> None:
        if runtime.num_processes:
            raise InputError(
                f"num_processes={runtime.num_processes} needs backend=jax. On "
                "TensorFlow, set the environment variable TF_CONFIG on each machine."
            )
        self.strategy = make_strategy(runtime)
        self.replicas = self.strategy.num_replicas_in_sync
        self.index = _worker_index(self.strategy)
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.count = self.replicas // len(self.strategy.extended.worker_devices)
        platform = tf.config.list_logical_devices()[-1].device_type
        self.kind = f"tensorflow, {self.replicas} x {platform}"
        self._sum = tf.function(self._sum_over_devices, autograph=False)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the scope of the strategy."""
        return self.strategy.scope()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each value over all processes; waits until all have called `sum`."""
        if self.count == 1:
            return list(values)
        # Each device of a process contributes an equal share of the process's values.
        devices = len(self.strategy.extended.worker_devices)
        shares = tf.constant(values, tf.float64) / devices
        return [float(value) for value in self._sum(shares)]

    def _sum_over_devices(self, shares: Any) -> Any:
        def reduce(shares: Any) -> Any:
            # `all_reduce` needs a tensor on a device, and `shares` is not yet on a
            # device.
            on_device = tf.identity(shares)
            return tf.distribute.get_replica_context().all_reduce("SUM", on_device)

        return self.strategy.experimental_local_results(
            self.strategy.run(reduce, (shares,))
        )[0]

    def start_profile(self, folder: str) -> None:
        """Starts a profile for TensorBoard."""
        tf.profiler.experimental.start(folder)

    def stop_profile(self) -> None:
        """Ends the profile and writes it."""
        tf.profiler.experimental.stop()


def _worker_index(strategy: tf.distribute.Strategy) -> int:
    """Returns the index of this process among the processes of its run; the chief has 0."""
    resolver = strategy.cluster_resolver
    if (
        not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        or resolver is None
    ):
        return 0
    follows_chief = (
        "chief" in resolver.cluster_spec().jobs and resolver.task_type != "chief"
    )
    return int(resolver.task_id) + follows_chief
