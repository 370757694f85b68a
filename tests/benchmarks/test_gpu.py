"""The script for a GPU's first minutes: a part that fails or hangs costs only its own rows."""

import json

import numpy as np

from benchmarks import gpu


def test_a_part_that_fails_or_hangs_stops_no_other(tmp_path, monkeypatch, capsys):
    plan = (("nothing", {}), ("versions", {}), ("speed", {"work": "planar", "backend": "fused"}))
    monkeypatch.setattr(gpu, "QUICK", plan)
    monkeypatch.setattr(gpu, "AT_MOST", {"fused": 60.0})
    real = gpu.part

    def part(name, options, seconds):
        return real(name, options, 0.5 if name == "speed" else seconds)

    monkeypatch.setattr(gpu, "part", part)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # put back at the end
    text = gpu.main(["--quick", "--device", "cpu", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "table.json").read_text())
    assert [row["part"] for row in results["trouble"]] == ["nothing", "speed planar fused"]
    assert "KeyError: 'nothing'" in results["trouble"][0]["what"]
    assert results["trouble"][1]["what"] == "ended after 0 s"
    assert {"what": "fused functions run as", "is": "fused"} in results["versions"]
    assert "| fused functions run as | fused " in text
    assert (tmp_path / "table.md").read_text() == text
    assert "JAX finds no GPU; it runs on: cpu" in capsys.readouterr().out


def test_without_time_the_parts_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "QUICK", (("versions", {}),))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # put back at the end
    gpu.main(["--quick", "--device", "cpu", "--out", str(tmp_path), "--budget", "5"])
    results = json.loads((tmp_path / "table.json").read_text())
    assert results["trouble"] == [{"part": "versions", "what": "no time was left"}]


def test_results_of_both_back_ends_are_compared(tmp_path):
    np.save(tmp_path / "planar-fused.npy", np.array([[1.0, 2.0], [4.0, 4.0]]))
    assert gpu.agreement(tmp_path) == []
    np.save(tmp_path / "planar-xla.npy", np.array([[1.0, 2.0], [4.0, 4.004]]))
    (row,) = gpu.agreement(tmp_path)
    assert row == {"work": "planar", "members": "2", "median": "0.0e+00", "largest": "1.0e-03"}
