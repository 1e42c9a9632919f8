"""The results of a sweep for the HPARAMS page of TensorBoard."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api, api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from bert_tf import files
from bert_tf.run_scripts.sweeps.cells import Cell

# The columns of sweep.csv that are the same for all runs of a cell.
_OF_CELL = ("std", "best", "failed", "degenerate")


def write(folder: str, grid: Mapping[str, Sequence[str]], cells: Sequence[Cell]) -> None:
    """Writes one session for each run with a result; replaces the folder.

    The runs of a cell are one group of sessions, for which the page shows the mean of each metric.
    TensorBoard's own writers are used, because those of TensorFlow would reserve GPU memory.

    Args:
        folder: The folder to write.
        grid: The values of each flag.
        cells: The results.
    """
    metrics = sorted({outcome.metric for cell in cells for _, outcome in cell.runs})
    is_number = {name: all(map(_is_number, values)) for name, values in grid.items()}
    config = api.hparams_config_pb(
        [api.HParam(name) for name in grid], [api.Metric(name) for name in (*metrics, *_OF_CELL)]
    )
    with files.atomic_folder(folder, "") as temporary:
        _write_events(temporary, [config])
        for cell in cells:
            values: dict[str, Any] = {
                name: float(text) if is_number[name] else text for name, text in cell.values
            }
            group = " ".join(f"{name}={text}" for name, text in cell.values)
            shared = {"std": 0.0, **cell.statistics()}
            shared |= {"failed": float(cell.failed), "degenerate": float(cell.degenerate)}
            for run, outcome in cell.runs:
                scalars = {outcome.metric: outcome.value, **{n: shared[n] for n in _OF_CELL}}
                start = api.hparams_pb(values, trial_id=group)
                summaries = [scalar_pb(name, value) for name, value in scalars.items()]
                _write_events(os.path.join(temporary, run.name), [start, *summaries, _end()])


def _end() -> Summary:
    """Returns the end of a session that succeeded."""
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=time.time())
    data = plugin_data_pb2.HParamsPluginData(session_end_info=end)
    value = Summary.Value(
        tag=metadata.SESSION_END_INFO_TAG, metadata=metadata.create_summary_metadata(data)
    )
    return Summary(value=[value])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write_events(folder: str, summaries: Sequence[Any]) -> None:
    writer = EventFileWriter(folder)
    for summary in summaries:
        writer.add_event(Event(summary=summary))
    writer.close()
