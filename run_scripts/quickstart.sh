#!/usr/bin/env bash
# Creates a virtual environment in .venv and runs run_scripts/quickstart.py in it: the complete
# workflow from raw text to predictions.
#
#   bash run_scripts/quickstart.sh              8 to 12 minutes on 2 cores
#   bash run_scripts/quickstart.sh --smoke      a small version, about 2 minutes
#
# Completed stages are skipped, and an interrupted run resumes when it is started again. The results
# are in quickstart_output/ (or --output_dir=...).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"
set_up ""
exec "$PYTHON" "$ROOT/run_scripts/quickstart.py" "$@"
