#!/usr/bin/env bash
# Sets up an environment in .venv and runs the checks: lint, types, tests.
#
#   bash run_scripts/test.sh            the checks, without slow tests
#   bash run_scripts/test.sh --slow     slow tests too; also installs the [ci] extra
#
# Other arguments go to pytest. Tests on real data take the folder that holds data/ and golden/
# from the environment variable BERT_TF_TEST_DATA; without it they are skipped and say so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"
extra="[dev]"
for argument in "$@"; do
    if [ "$argument" = "--slow" ]; then extra="[ci]"; fi
done
set_up "$extra"
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
"$PYTHON" -m mypy
"$PYTHON" -m pytest -n 2 --dist worksteal "$@"
