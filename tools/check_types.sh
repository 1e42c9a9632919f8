#!/usr/bin/env bash
# Runs mypy on the packages in their installed layout, in which data_prep/ and run_scripts/ are
# inside bert_tf (setup.py). build/installed_layout contains links in that layout.
set -euo pipefail
cd "$(dirname "$0")/.."
layout=build/installed_layout/bert_tf
rm -rf "$layout"
mkdir -p "$layout"
ln -s "$PWD"/bert_tf/* "$PWD/data_prep" "$PWD/run_scripts" "$layout/"
exec "${PYTHON:-.venv/bin/python}" -m mypy "$@"
