"""Verdicts: the same starts by every way to compute them."""

import numpy as np
import pytest

from jaxsim import CHARACTERS, Character, ModelBuilder, Roles, hinge, plane, slide, sphere
from jaxsim.characters.standing import stand
from optimize.cli.verdict import table
from optimize.problems.problem import Problem
from optimize.problems.starts import ANGLE, RATE
from optimize.results.intervals import wilson
from optimize.studies.push_options import MapOptions, PushMap
from optimize.studies.push_report import table as push_table
from optimize.studies.verdict import Column, Verdict, VerdictOptions, verdict
from optimize.tuning.config import DEFAULTS


def test_the_interval_of_a_share():
    # Wilson (1927); the figures by scipy.stats.binomtest(95, 100).proportion_ci(method="wilson")
    assert wilson(95, 100) == pytest.approx((0.888250, 0.978456), abs=1e-5)
    assert wilson(0, 10)[0] == 0.0 and wilson(10, 10)[1] == 1.0


def test_what_fails_is_marked():
    options = VerdictOptions(starts=20)
    good, bad = np.ones(20, bool), np.arange(20) < 18
    ways = ("fused", good), ("xla", bad)
    columns = [Column("time_stepping", b, "float64", 0.001, s) for b, s in ways]
    found = Verdict("kip_up", options, columns)
    assert found.failing == [columns[1]]
    lines = table([found]).splitlines()
    assert lines[0] == "| scheme, back end, precision, step | kip_up |"
    assert "20/20 (84 to 100 %) |" in lines[2] and "18/20 (70 to 97 %) ! |" in lines[3]


def test_one_spread_for_tuning_sweeps_maps_and_verdicts_is_said_beside_their_shares():
    assert DEFAULTS["spread"] == (ANGLE, RATE) == Problem.spread
    verdicts = VerdictOptions(starts=20)
    assert (verdicts.angle, verdicts.rate) == (ANGLE, RATE)
    spread = "the first as it is, joints of the others off by 0.02 rad and 0.1 rad/s"
    told = f"20 starts (seed 900000): {spread}; friction 0.5 to 0.8"
    assert Verdict("kip_up", verdicts).starts == told
    nothing = np.zeros((0, 1, 1, 1))
    found = PushMap(
        MapOptions(durations=(0.2,), directions=1, starts=1), *np.full((1, 1, 1, 1), 75.0),
        nothing, *np.zeros((3, 1, 1, 1), int),
    )  # fmt: skip
    assert f"starts: {spread}" in push_table(found)


@pytest.mark.parametrize(
    "options, told",
    [
        (dict(friction=(0.8, 0.5)), "give the least and the most"),
        (dict(still=9.0), "still is 9.0 s of 8.0 s"),
        (dict(dts=()), "give time steps above 0"),
    ],
)
def test_options_that_cannot_be(options, told):
    with pytest.raises(ValueError, match=told):
        VerdictOptions(**options)


def test_a_choice_that_leaves_no_column_names_what_there_is():
    with pytest.raises(ValueError, match=r"sit_to_stand: .*; event_driven, fused, float64"):
        verdict("sit_to_stand", VerdictOptions(), backend="xla", scheme="event_driven")


def nodder():
    """A block on the ground with a head on a neck, which a weak motor holds upright."""
    b = ModelBuilder()
    root = [slide("x", (1, 0, 0)), slide("z", (0, 0, 1)), hinge("pitch", (0, 1, 0))]
    neck = hinge("neck", (0, 1, 0), limits=(-2.0, 2.0), kp=30.0, kd=1.0, max_torque=20.0)
    b.add_link("block", "world", mass=20.0, inertia=(0.3,) * 3, joints=root)
    b.add_link("top", "block", mass=1.0, com=(0, 0, 0.4), inertia=(0.01,) * 3, joints=[neck])
    for name, x in (("heel", -0.2), ("toe", 0.2)):
        b.add_shape("block", sphere(0.1, pos=(x, 0, 0), name=name))
    b.add_shape("world", plane())
    b.set_roles(Roles("nodder", (("pelvis", "block"), ("head", "top")), stands_at=0.8))
    return b.build()


def test_the_event_driven_column_is_that_of_time_stepping(monkeypatch, tmp_path):
    """Heads that begin to nod fast enough are low at the end, by either scheme the same ones."""
    monkeypatch.setitem(CHARACTERS, "nodder", Character(nodder, ("standing",), stand))
    file = tmp_path / "nods.toml"
    file.write_text('[character]\nmodel = "nodder"\n')
    options = VerdictOptions(starts=12, rate=8.0, dts=(0.001,), seconds=0.2, still=0.1)
    ways = [
        verdict(str(file), options, backend="fused", precision="float64", scheme=scheme).columns[0]
        for scheme in ("time_stepping", "event_driven")
    ]
    assert ways[1].name == "event_driven, fused, float64, 1 ms"
    np.testing.assert_array_equal(ways[0].stood, ways[1].stood)
    assert 3 < ways[1].ok < 12 and ways[1].stood[0]


@pytest.mark.slow
def test_a_human_that_stands_does_so_in_every_column_and_one_that_lies_in_none():
    options = VerdictOptions(starts=3, dts=(0.001, 0.002), seconds=0.2, still=0.1)
    found = verdict("sit_to_stand", options, {"character.start": "standing"})
    names = [column.name for column in found.columns]
    assert len(names) == len(set(names)) == 2 * 2 * 2 + 1 and names[-1].startswith("event_driven")
    assert [column.ok for column in found.columns] == [3] * 9 and not found.failing
    lies = verdict("sit_to_stand", options, {"character.start": "supine"})
    assert [column.ok for column in lies.columns] == [0] * 9 and len(lies.failing) == 9
