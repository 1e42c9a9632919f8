"""`JaxDevices`: the devices of a run on JAX, and arrays on all of them."""

import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bert_tf.errors import InputError
from bert_tf.training.devices import Devices
from bert_tf.training.training_config import RuntimeConfig

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
_AXIS = "batch"


class JaxDevices(Devices):
    """All devices of a run, in a mesh with one axis.

    Weights have a copy on each device; the rows of a batch are divided among the
    devices. `distribution_strategy` selects the devices: the first one of this process
    (one_device), all of this process (mirrored, tpu), or all of several processes
    (multi_worker_mirrored).
    """

    def __init__(self, runtime: RuntimeConfig) -> None:
        if runtime.deterministic:
            # XLA reads this variable when it lists the devices.
            flags = os.environ.get("XLA_FLAGS", "").split()
            if _DETERMINISTIC not in flags:
                os.environ["XLA_FLAGS"] = " ".join([*flags, _DETERMINISTIC])
        kind = runtime.distribution_strategy
        is_divided = kind == "multi_worker_mirrored"
        if is_divided:
            _connect(runtime)

        try:
            devices = jax.devices() if is_divided else jax.local_devices()
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"JAX cannot use its devices: {reason}.") from error
        platform = devices[0].platform
        if kind == "tpu" and platform != "tpu":
            raise InputError(
                f"distribution_strategy=tpu needs a TPU, but JAX lists {len(devices)} x "
                f"{platform}. Install jax[tpu] on the TPU's machine, or give "
                "distribution_strategy=mirrored."
            )
        if runtime.num_gpus > len(devices):
            raise InputError(
                f"num_gpus is {runtime.num_gpus}, but this machine has {len(devices)} "
                "devices."
            )
        limit = 1 if kind == "one_device" else runtime.num_gpus or None
        devices = devices[:limit]

        self.mesh = Mesh(np.array(devices), (_AXIS,))
        self.one_copy_each = NamedSharding(self.mesh, PartitionSpec())
        self.replicas = len(devices)
        if is_divided:
            self.index = jax.process_index()
            self.count = jax.process_count()
        self.kind = f"jax, {self.replicas} x {platform}"
        if self.count > 1:
            self.connection_errors = (jax.errors.JaxRuntimeError,)
        if platform != "cpu":
            _cache_programs()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Returns the sum of each value over all processes; waits until all have called `sum`."""
        if self.count == 1:
            return list(values)
        # JAX has no float64 by default, so the numbers are sent as their bytes.
        pairs = np.array(values, np.float64).view(np.uint32)
        gathered = np.asarray(multihost_utils.process_allgather(pairs))
        return [float(total) for total in gathered.view(np.float64).sum(axis=0)]

    def replicated(self, values: Any) -> Any:
        """Returns arrays of equal values in all processes as arrays on all devices."""
        return jax.tree.map(
            lambda value: self._place(self.one_copy_each, value), values
        )

    def divided(self, values: Any) -> Any:
        """Returns this process's rows as arrays whose rows are divided among all devices.

        The rows are the second axis.
        """
        sharding = NamedSharding(self.mesh, PartitionSpec(None, _AXIS))
        return jax.tree.map(lambda value: self._place(sharding, value), values)

    def _place(self, sharding: NamedSharding, value: Any) -> jax.Array:
        if self.count == 1:
            return jax.device_put(value, sharding)
        return jax.make_array_from_process_local_data(sharding, np.asarray(value))

    def start_profile(self, folder: str) -> None:
        """Starts a profile for TensorBoard."""
        jax.profiler.start_trace(folder)

    def stop_profile(self) -> None:
        """Ends the profile and writes it."""
        jax.profiler.stop_trace()


def local(value: jax.Array) -> jax.Array:
    """Returns this process's copy of an array that each device has a copy of."""
    return value.addressable_data(0)


def _connect(runtime: RuntimeConfig) -> None:
    """Connects the processes of a run; without an address, JAX detects the cluster."""
    if jax.distributed.is_initialized():
        return
    address = runtime.coordinator_address
    given = {
        "coordinator_address": address or None,
        "num_processes": runtime.num_processes or None,
        "process_id": runtime.process_id if runtime.process_id >= 0 else None,
    }
    try:
        jax.distributed.initialize(**given)
    except (RuntimeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"The processes of the run cannot connect: {reason} Give each process "
            "coordinator_address=HOST:PORT of the first process, num_processes and its "
            "process_id, from 0."
        ) from error


def _cache_programs() -> None:
    """Keeps compiled programs in the cache folder of the user, unless a folder is set."""
    if jax.config.jax_compilation_cache_dir is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        jax.config.update("jax_compilation_cache_dir", os.path.join(base, "bert_tf"))
