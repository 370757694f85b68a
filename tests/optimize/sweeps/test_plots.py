"""Pictures of sweeps show the means of what was measured."""

import numpy as np
import pytest

from optimize.sweeps import plots, store

SHAPE = (3, 4, 2, 5)


@pytest.fixture
def table():
    """Two numbers with values, one that was drawn, and starts."""
    random = np.random.default_rng(0)
    coords = {
        "a": (("a",), np.arange(3.0), {"units": "kg"}),
        "b": (("b",), np.arange(4.0), {}),
        "d": (("sample",), random.random(2), {}),
        "e": (("sample",), random.random(2), {}),
    }
    layout = store.SweepLayout(("a", "b", "sample", "start"), SHAPE, SHAPE, coords, {"y": "m"}, {})
    arrays = {"y": random.random(SHAPE), "failed": np.zeros(SHAPE, bool)}
    arrays["y"][0, 0] = np.nan
    return store.dataset_of(layout, arrays)


@pytest.fixture
def drawn(monkeypatch):
    """The figure in the place of its file."""
    kept = {}
    monkeypatch.setattr(plots, "save_figure", lambda path, figure: kept.update({path: figure}))
    return kept


def test_a_heat_map_has_the_means_and_says_what_failed(table, drawn):
    plots.plot_sweep("heat", table, "y", ("a", "b"), "heat")
    axis = drawn["heat"].axes[0]
    np.testing.assert_allclose(axis.images[0].get_array(), table["y"].mean(["sample", "start"]))
    assert (axis.get_ylabel(), axis.get_xlabel()) == ("a [kg]", "b")
    assert "y [m]; mean over 2 sample and 5 start" in axis.get_title("left")
    assert [text.get_text() for text in axis.texts].count("failed") == 1


def test_lines_go_over_one_axis_for_each_value_of_another(table, drawn):
    plots.plot_sweep("lines", table, "y", ("b", "a"), "lines")
    lines = drawn["lines"].axes[0].lines
    assert [line.get_label() for line in lines] == ["a = 0", "a = 1", "a = 2"]
    mean = table["y"].mean(["sample", "start"]).to_numpy()
    np.testing.assert_allclose([line.get_ydata() for line in lines], mean)
    plots.plot_sweep("one", table.isel(sample=0, drop=True), "y", ("b",))
    assert len(drawn["one"].axes[0].lines) == 1


def test_pairs_show_each_two_that_were_drawn(table, drawn):
    plots.plot_sweep("pairs", table, "y")
    names = {(axis.get_xlabel(), axis.get_ylabel()) for axis in drawn["pairs"].axes}
    assert {("d", "y [m]"), ("d", "e"), ("e", "y [m]")} <= names


@pytest.mark.parametrize(
    "options, message",
    [
        ({"by": ("c",)}, "no axis 'c' with values; there are: a, b"),
        ({"kind": "pie"}, "there are heat, lines, pairs"),
        ({"by": ("a",), "kind": "heat"}, "a heat map has two axes"),
    ],
)
def test_what_cannot_be_drawn_is_told(table, drawn, options, message):
    with pytest.raises((KeyError, ValueError), match=message):
        plots.plot_sweep("none", table, "y", **options)
    assert not drawn


def test_a_picture_is_a_file(table, tmp_path):
    plots.plot_sweep(tmp_path / "y.png", table, "y")
    assert (tmp_path / "y.png").read_bytes().startswith(b"\x89PNG")
