# Sourced by quickstart.sh and test.sh: a virtual environment in .venv with this project in it.
#
#   set_up ""                  what the package needs
#   set_up "[dev]"             and an extra
#   set_up "[ci]" "name==1"    and packages without what they depend on
#
# Leaves $PYTHON, the environment's interpreter. Needs Python 3.10 to 3.13, as python3 or in
# BERT_TF_PYTHON, and pip; nothing else. An environment that is up to date is used as it is.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="$ROOT/.venv/bin/python"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
export PIP_DISABLE_PIP_VERSION_CHECK=1

find_python() {
    local name
    set -- python3 python3.13 python3.12 python3.11 python3.10
    if [ -n "${BERT_TF_PYTHON:-}" ]; then set -- "$BERT_TF_PYTHON"; fi
    for name in "$@"; do
        if command -v "$name" >/dev/null && "$name" -c \
            'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "error: Python 3.10 to 3.13 is needed. Tried: $*. Name one in BERT_TF_PYTHON." >&2
    return 2
}

make_environment() {
    local base="$1" outside
    if [ ! -x "$PYTHON" ]; then
        "$base" -m venv "$ROOT/.venv" >/dev/null 2>&1 ||
            "$base" -m venv --without-pip --clear "$ROOT/.venv"
    fi
    if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then
        # Debian's python3 comes without ensurepip: the pip outside installs the one inside.
        if ! outside="$("$base" -c 'import pip; print(pip.__path__[0])' 2>/dev/null)"; then
            echo "error: $base has neither ensurepip nor pip. Install one of them." >&2
            return 2
        fi
        PYTHONPATH="$(dirname "$outside")" "$PYTHON" -m pip install --quiet --ignore-installed pip
    fi
    # Pips as old as that of Python 3.10 may find no versions that go together.
    "$PYTHON" -m pip install --quiet --upgrade pip
}

set_up() {
    local extra="$1" base wanted stamp="$ROOT/.venv/installed"
    shift
    base="$(find_python)" || return
    wanted="$(cat "$ROOT/setup.py" "$ROOT/requirements.txt" | cksum) $ROOT $*"
    if [ -f "$stamp$extra" ] && [ "$(cat "$stamp$extra")" = "$wanted" ]; then
        return
    fi
    echo "Setting up $ROOT/.venv (once; tensorflow is a large download) ..." >&2
    make_environment "$base"
    "$PYTHON" -m pip install --quiet -e "$ROOT$extra"
    if [ $# -gt 0 ]; then "$PYTHON" -m pip install --quiet --no-deps "$@"; fi
    echo "$wanted" >"$stamp$extra"
}
