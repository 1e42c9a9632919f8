"""Reads and writes JSON files."""

import json
import pathlib


def read_json(path):
    return json.loads(pathlib.Path(path).read_text("utf-8"))


def write_json(path, value):
    pathlib.Path(path).write_text(json.dumps(value), "utf-8")


def edit_json(path, **values):
    """Changes values in a JSON file, which may be absent; None removes a key."""
    before = read_json(path) if pathlib.Path(path).exists() else {}
    after = {k: v for k, v in {**before, **values}.items() if v is not None}
    write_json(path, after)
