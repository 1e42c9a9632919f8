"""bfloat16 on processors without its instructions."""

import linear_runs as runs
import pytest

from bert_tf.training import mixed_precision
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import RuntimeConfig

AVX2 = "model name\t: AMD EPYC 7B13\nflags\t\t: fpu sse4_2 avx2 fma f16c\n"
EMULATED = "bfloat16 is emulated, because {}: slower than float32, and less exact."
NO_INSTRUCTIONS = "this processor has no bfloat16 instructions (AVX512-BF16 or AMX)"


@pytest.mark.parametrize(
    ("cpu_info", "onednn", "reason"),
    [
        (AVX2, "1", NO_INSTRUCTIONS),
        (f"{AVX2[:-1]} avx512f avx512_vnni\n", "1", NO_INSTRUCTIONS),
        (f"{AVX2[:-1]} avx512f avx512_bf16\n", "1", None),
        (f"{AVX2[:-1]} avx512f amx_bf16 amx_tile\n", "1", None),
        (
            f"{AVX2[:-1]} avx512f amx_bf16 amx_tile\n",
            "0",
            "TF_ENABLE_ONEDNN_OPTS=0 switches",
        ),
        ("Features\t: fp asimd bf16 i8mm\n", "1", None),
        (None, "1", None),  # a system without this file
    ],
)
def test_the_flags_of_the_processor_decide(
    tmp_path, monkeypatch, cpu_info, onednn, reason
):
    path = tmp_path / "cpuinfo"
    if cpu_info:
        path.write_text(cpu_info)
    monkeypatch.setattr(mixed_precision, "_CPU_INFO", str(path))
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", onednn)
    found = mixed_precision.emulation_of_bfloat16()
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_a_run_says_so_in_one_line(tmp_path, monkeypatch, caplog, precision):
    path = tmp_path / "cpuinfo"
    path.write_text(AVX2)
    monkeypatch.setattr(mixed_precision, "_CPU_INFO", str(path))
    training = runs.training_config(precision=precision)
    Trainer(
        runs.Regression, runs.run_folder(tmp_path / "run"), training, RuntimeConfig()
    )
    line = f"warning: {EMULATED.format(NO_INSTRUCTIONS)} Give precision=float32."
    expected = [line] if precision == "bfloat16" else []
    assert [each.getMessage() for each in caplog.records] == expected
