"""Finds the valid checkpoints of a run.

A checkpoint is valid if its checksums match.
"""

import hashlib
import json
import pathlib


def latest_valid_step(folder):
    """Returns the step of the newest checkpoint that matches its state.json, or None.

    This function does not use the project's code. Tests compare its result with the
    step that the project chooses.
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
