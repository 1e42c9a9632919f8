# Sourced by quickstart.sh and test.sh: a virtual environment in .venv with this project in it.
#
#   set_up ""        what the package needs
#   set_up "[dev]"   and an extra
#
# Leaves $PYTHON, the environment's interpreter. Needs Python 3.10 to 3.13 and pip, nothing else;
# an environment that is up to date is used as it is.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="$ROOT/.venv/bin/python"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"

find_python() {
    local name
    for name in "${BERT_TF_PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$name" ] && command -v "$name" >/dev/null && "$name" -c \
            'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'; then
            echo "$name"
            return
        fi
    done
    echo "error: Python 3.10 to 3.13 is needed, as python3 or in BERT_TF_PYTHON." >&2
    return 2
}

set_up() {
    local extra="$1" base wanted stamp="$ROOT/.venv/installed"
    wanted="$(cat "$ROOT/setup.py" "$ROOT/requirements.txt" | cksum) $ROOT"
    if [ -f "$stamp$extra" ] && [ "$(cat "$stamp$extra")" = "$wanted" ]; then
        return
    fi
    base="$(find_python)" || return
    echo "Setting up $ROOT/.venv (once; tensorflow is a large download) ..." >&2
    if [ ! -x "$PYTHON" ]; then
        # Debian's python3 comes without ensurepip: then pip installs into the environment from
        # outside.
        "$base" -m venv "$ROOT/.venv" >/dev/null 2>&1 ||
            "$base" -m venv --without-pip --clear "$ROOT/.venv"
    fi
    if "$PYTHON" -m pip --version >/dev/null 2>&1; then
        "$PYTHON" -m pip install --quiet --disable-pip-version-check -e "$ROOT$extra"
    else
        "$base" -m pip --python "$PYTHON" install --quiet --disable-pip-version-check -e "$ROOT$extra"
    fi
    echo "$wanted" >"$stamp$extra"
}
