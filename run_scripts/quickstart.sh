#!/usr/bin/env bash
# From raw text to answers: sets up an environment in .venv and runs run_scripts/quickstart.py.
#
#   bash run_scripts/quickstart.sh              at most 10 minutes on 2 cores
#   bash run_scripts/quickstart.sh --smoke      the same in small, under 2 minutes
#
# Stages that are done are not done again; interrupted, it goes on. Results are in
# quickstart_output/ (or --output_dir=...).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up ""
exec "$PYTHON" "$ROOT/run_scripts/quickstart.py" "$@"
