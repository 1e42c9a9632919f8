"""Finds the valid checkpoints of a run by their checksums."""

import hashlib
import json
import pathlib


def latest_valid_step(folder):
    """Returns the step of the newest checkpoint whose files match its state.json, or None.

    The project's code is not used, so that tests can compare the project's choice with the result.
    """
    steps = []
    for path in pathlib.Path(folder).glob("checkpoints/step-*/state.json"):
        facts = json.loads(path.read_text())
        checksums = {
            name: hashlib.sha256((path.parent / name).read_bytes()).hexdigest()
            for name in facts["files"]
        }
        if checksums == facts["files"]:
            steps.append(facts["step"])
    return max(steps, default=None)
