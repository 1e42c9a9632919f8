"""Over which devices and machines a run is spread, and how its processes agree."""

import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training.config import RuntimeConfig


def make_strategy(runtime: RuntimeConfig) -> tf.distribute.Strategy:
    """The strategy whose scope model and optimizer are built in.

    Several workers and TPUs have to be connected before TensorFlow has done anything else, so a
    main calls this first.

    one_device: the first GPU, or the CPU.
    mirrored: `num_gpus` GPUs of this machine.
    multi_worker_mirrored: all GPUs (or the CPU) of the machines that the environment variable
        TF_CONFIG names; the same program runs on each, with the output folder on storage that
        all of them see.
    tpu: the TPU called `tpu_name`, or that of this machine.

    Raises:
        InputError: There are fewer GPUs, TF_CONFIG does not say who the workers are, or there is
            no such TPU.
    """
    kind = runtime.distribution_strategy
    if runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    if kind == "one_device":
        return tf.distribute.get_strategy()
    if kind == "multi_worker_mirrored":
        _check_cluster()
        return tf.distribute.MultiWorkerMirroredStrategy()
    if kind == "tpu":
        return _tpu_strategy(runtime)
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if runtime.num_gpus > len(found):
        raise InputError(f"num_gpus is {runtime.num_gpus}, but {len(found)} devices were found.")
    return tf.distribute.MirroredStrategy([d.name for d in found[: runtime.num_gpus or None]])


def _tpu_strategy(runtime: RuntimeConfig) -> tf.distribute.Strategy:
    name = runtime.tpu_name or "local"
    zone, project = runtime.tpu_zone or None, runtime.gcp_project or None
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name, zone, project)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    # What goes wrong depends on how the TPU is looked for: by name, by address, on this machine.
    except Exception as error:
        reason = str(error).split(". ")[0].split("\n")[0] or type(error).__name__
        raise InputError(
            f"The TPU {name!r} cannot be used: {reason}. Check --tpu_name, --tpu_zone and "
            "--gcp_project, and that the tensorflow-tpu package is installed on the TPU's machine."
        ) from error


def _check_cluster() -> None:
    text = os.environ.get("TF_CONFIG", "")
    example = (
        '{"cluster": {"worker": ["host1:port", "host2:port"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        found = json.loads(text)
        task = found["task"]
        addresses = found["cluster"][task["type"]]
        if not 0 <= int(task["index"]) < len(addresses):
            raise IndexError(f"there is no {task['type']} {task['index']}")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            "multi_worker_mirrored needs the environment variable TF_CONFIG on each machine, such "
            f"as {example}. Received: {text!r} ({type(error).__name__}: {error})."
        ) from error


def check_divisible(replicas: int, global_batch_size: int, accumulation: int) -> None:
    """Checks that each replica gets as many examples, in as many equal parts.

    Raises:
        InputError: It cannot be.
    """
    if global_batch_size % (replicas * accumulation):
        parts = f"{replicas} devices" + (f" in {accumulation} parts" if accumulation > 1 else "")
        raise InputError(
            f"The batch of {global_batch_size} cannot be divided among {parts}. Give a multiple "
            f"of {replicas * accumulation}."
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or resolver is None:
        return True
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_type == "chief" or (not has_chief and resolver.task_id == 0)


class Agreement:
    """Lets the processes of a run decide alike.

    Args:
        strategy: Of the run.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._alone = not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._total = tf.function(self._total_eager)

    def total(self, values: Sequence[float]) -> list[float]:
        """The sum over the processes of what each of them brings, the same on each of them."""
        if self._alone:
            return list(values)
        # Each device of a process brings its share.
        devices = len(self._strategy.extended.worker_devices)
        return [float(value) for value in self._total(tf.constant(values, tf.float64) / devices)]

    def _total_eager(self, shares: Any) -> Any:
        def reduce(shares: Any) -> Any:
            # An argument is on no device yet, and a reduction wants to know where to.
            here = tf.identity(shares)
            return tf.distribute.get_replica_context().all_reduce("SUM", here)

        return self._strategy.experimental_local_results(self._strategy.run(reduce, (shares,)))[0]
