"""Sobol indices of a function whose indices are known."""

import numpy as np
import pytest

from optimize.sweeps import store
from optimize.sweeps.design import Design
from optimize.sweeps.distributions import Uniform
from optimize.sweeps.plots import plot_indices
from optimize.sweeps.sensitivity import indices_text, sobol_indices

A, B = 7.0, 0.1  # of Ishigami's function


def ishigami(count: int, seed: int = 0):
    """A sweep's table whose measure is sin x1 + a sin^2 x2 + b x3^4 sin x1."""
    names = [f"x{k}" for k in (1, 2, 3)]
    design = Design({n: Uniform(-np.pi, np.pi) for n in names}, "saltelli", count, seed)
    x = design.samples.T
    values = np.sin(x[0]) + A * np.sin(x[1]) ** 2 + B * x[2] ** 4 * np.sin(x[0])
    coords = {name: (("sample",), column, {}) for name, column in zip(names, x)}
    attrs = {"sample": "saltelli"}
    layout = store.SweepLayout(
        ("sample", "start"), (len(values), 1), (1, 1), coords, {"y": ""}, attrs
    )
    arrays = {"y": values[:, None], "failed": np.zeros((len(values), 1), bool)}
    return store.dataset_of(layout, arrays)


def truth():
    """First and total indices, from the integrals."""
    one, two = 0.5 * (1 + B * np.pi**4 / 5) ** 2, A**2 / 8
    both = B**2 * np.pi**8 * (1 / 18 - 1 / 50)  # of x1 and x3 together
    whole = one + two + both
    first = np.array([one, two, 0.0])
    return first / whole, np.array([one + both, two, both]) / whole


def test_indices_of_ishigamis_function_lie_in_their_intervals():
    inside = []
    for seed in range(5):
        found = sobol_indices(ishigami(512, seed), "y", seed)
        assert list(found["number"].to_numpy()) == ["x1", "x2", "x3"]
        for name, wanted in zip(("first", "total"), truth()):
            error = np.abs(found[name].to_numpy() - wanted)
            inside += list(error <= found[f"{name}_interval"].to_numpy())
            np.testing.assert_allclose(error, 0.0, atol=0.12)
    assert np.mean(inside) > 0.8  # 95% intervals of 30, of bootstrap on a sequence that is even


def test_groups_with_a_failed_member_are_left_out(tmp_path):
    table = ishigami(64)
    table["y"][7] = np.nan  # of the second group of five
    found = sobol_indices(table, "y")
    assert found.attrs["left_out"] == 1 and found.attrs["groups"] == 64
    assert np.isfinite(found["total"]).all() and "63 of 64 groups" in indices_text(found)
    plot_indices(tmp_path / "bars.png", found)
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_what_has_no_indices_is_told():
    table = ishigami(8)
    with pytest.raises(KeyError, match=r"no measure 'z' in this sweep; there are: y"):
        sobol_indices(table, "z")
    with pytest.raises(ValueError, match="nothing depends on it"):
        sobol_indices(table.assign(y=table["y"] * 0.0), "y")
    with pytest.raises(ValueError, match="0 of 8 groups are whole"):
        sobol_indices(table.assign(y=table["y"] * np.nan), "y")
    with pytest.raises(ValueError, match="need sample="):
        sobol_indices(table.assign_attrs(sample="sobol"), "y")
