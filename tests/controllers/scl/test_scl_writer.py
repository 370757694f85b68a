"""Scripts written back: only the numbers change, and they are read again as they were meant."""

import math
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.scl.names import Vocabulary
from controllers.scl.parser import parse
from controllers.scl.script import Script
from controllers.scl.writer import rewrite
from jaxsim.ranges import RANGES

SCRIPTS = Path(__file__).resolve().parents[3] / "controllers" / "scripts"
LARGEST = RANGES["number"].most
NAMES = sorted(path.name for path in SCRIPTS.glob("*.scl"))


@cache
def vocabulary() -> Vocabulary:
    """The names of the planar human (Shen thesis, figure 4.1), without ranges."""
    joints = ("Shoulder", "Elbow", "Wrist", "Hip", "Knee", "Ankle")
    parts = ("Arm", "Forearm", "Hand", "Thigh", "Shank", "Foot")
    return Vocabulary.build(
        ["neckTop", "neckBottom", "waist", *(s + j for s in ("left", "right") for j in joints)],
        ["head", "neck", "trunk", "pelvis", *(s + p for s in ("left", "right") for p in parts)],
        extra_joint_groups={"necks": ("neckTop", "neckBottom")},
    )


@cache
def printed(name: str) -> Script:
    return parse((SCRIPTS / name).read_text(encoding="utf-8"), vocabulary(), name)


def read(text: str) -> Script:
    return parse(text, vocabulary())


@pytest.mark.parametrize("name", NAMES)
def test_unchanged_values_give_the_same_text(name):
    script = printed(name)
    assert rewrite(script, script.values()) == script.source


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_values_are_read_back_to_six_digits(name, data):
    script = printed(name)
    values = []
    for label in script.labels:
        low, high = -LARGEST, LARGEST
        if " time" in label:
            low, high = 0.0, LARGEST
        elif " strength" in label:
            low, high = 0.0, 1.0
        values.append(
            data.draw(st.floats(low, high, allow_nan=False, allow_infinity=False), label=label)
        )
    again = read(rewrite(script, values))
    for found, value in zip(again.values(), values, strict=True):
        assert math.isclose(found, value, rel_tol=5.001e-6)
    assert again.free_indices() == script.free_indices()
    assert again.labels == script.labels


@settings(max_examples=50, deadline=None)
@given(st.floats(-LARGEST, LARGEST), st.floats(-1e6, 1e6))
def test_writing_is_exact_for_short_numbers(start, value):
    script = read(f"{{ [waist {start:.17g} child] }}")
    short = float(f"{value:.6g}")
    again = read(rewrite(script, [short])).values()[0]
    assert again == short or f"{start:.6g}" == f"{short:.6g}"


@pytest.mark.parametrize(
    "before, value, after",
    [
        ("0.30", 0.3, "0.30"),
        ("0.30", 0.30000001192092896, "0.30"),  # 0.3 in single precision
        ("-.5", -0.5, "-.5"),
        ("+4", 4, "+4"),
        ("0.0", -0.0, "0.0"),
        ("1", -0.0, "0"),
        ("1", 1e-30, "1e-30"),
        ("40", 41, "41"),
        ("40", 41.0, "41"),
        ("40", 1 / 3, "0.333333"),
        ("40", -123456.7, "-123457"),
        ("40", 12345678, "1.23457e+07"),
        ("@40", 41.5, "@41.5"),
        ("@-40", 41.5, "@41.5"),
        ("@ 40", -41.5, "@ -41.5"),
        ("1e1", 10, "1e1"),
    ],
)
def test_numbers(before, value, after):
    source = "{\r\n\t// 12 and @3\r\n[waist %s, hips 2 time:1]}// end"
    script = read(source % before)
    assert rewrite(script, [value, 2, 1]) == source % after


def test_mirrored_copies_follow():
    script = read("{ [vf (1, 2) on: leftFoot, by: leftHip] [symm] }")
    again = read(rewrite(script, [3, 4]))
    for force in again.phases[0].primitives:
        assert [number.value for number in force.force] == [3, 4]


def test_wrong_count_of_values():
    script = read("{ [waist 1] } after 2 { }")
    for values in ([], [1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"{len(values)} values for the 2 numbers"):
            rewrite(script, values)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_named(bad):
    script = parse("{ (bow)\n [waist 1] } after 2 { }", vocabulary(), "bow.scl")
    with pytest.raises(ValueError, match=r"'bow: waist angle' \(line 2 of bow.scl\) is "):
        rewrite(script, [bad, 2])
    with pytest.raises(ValueError, match=r"'bow: after time' \(line 2 of bow.scl\)"):
        rewrite(script, [1, bad])
