"""What the parser makes of scripts: the listings of Shen's thesis, and each construct alone."""

from pathlib import Path

import pytest

from controllers.scl.ast import ContactCondition, Number
from controllers.scl.grammar import grammar, keywords
from controllers.scl.names import Vocabulary, plural
from controllers.scl.parser import parse, parse_file
from controllers.scl.primitives.gravity_compensation import GravityCompensation
from controllers.scl.primitives.inverse_kinematics import IK
from controllers.scl.primitives.pd import PD, PDTarget
from controllers.scl.primitives.relax import Relax
from controllers.scl.primitives.virtual_force import BalanceFeedback, VirtualForce
from controllers.scl.script import Script

SCRIPTS = Path(__file__).resolve().parents[3] / "controllers" / "scripts"


PLACEHOLDERS = Vocabulary.build(
    ["joint_1", "joint_2", "joint_3", "joint", "leftAnkle", "rightAnkle", "rightHip"],
    ["body_1", "trunk"],
)


def first(text: str, vocabulary: Vocabulary):
    """The first primitive of a script that is one phase with this text."""
    return parse(f"{{ {text} }}", vocabulary).phases[0].primitives[0]


def angles(pd: PD) -> list[tuple[tuple[str, ...], float, str]]:
    return [(t.joints, t.angle.value, t.frame) for t in pd.targets]


def value(number: Number | None) -> float | None:
    return None if number is None else number.value


def both(*stems: str) -> tuple[str, ...]:
    return tuple(side + stem for stem in stems for side in ("left", "right"))


# ---- the listings of chapter 4 and 6 -------------------------------------------------------


def test_listing_4_1(vocabulary):
    script = parse(
        """{
(left_shoulder_raise)
[leftShoulder 180]
}
after 2
{
(right_shoulder_raise)
[rightShoulder 180]
}""",
        vocabulary,
    )
    assert [p.name for p in script.phases] == ["left_shoulder_raise", "right_shoulder_raise"]
    assert script.values() == [180, 2, 180]
    one, two = script.phases
    assert one.primitives == (
        PD((PDTarget(("leftShoulder",), script.numbers[0], "joint"),), time=None),
    )
    assert (value(one.transition.time), one.transition.contact, one.transition.target) == (
        2,
        None,
        1,
    )
    assert two.transition is None
    assert script.warnings == ()


def test_listing_4_2(vocabulary):
    script = parse(
        """{
(phase_1)
[shoulders 120]
}
after 2
{
(phase_2)
[shoulders 0, elbows 0, wrists -40]
}
when contact hands
{
(phase_3)
[leftElbow 90]
}
after 2
{
(phase_4) : (phase_3)
}
finally after 3
backto phase_1""",
        vocabulary,
    )
    assert [p.transition.target for p in script.phases] == [1, 2, 3, 0]
    assert [p.mirror_of for p in script.phases] == [None, None, None, "phase_3"]
    hands = ContactCondition("touching", "any", ("leftHand", "rightHand"))
    assert script.phases[1].transition.contact == hands
    assert script.phases[1].transition.time is None
    [original], [mirrored] = script.phases[2].primitives, script.phases[3].primitives
    assert angles(mirrored) == [(("rightElbow",), 90, "joint")]
    assert mirrored.targets[0].angle is original.targets[0].angle
    assert script.values() == [120, 2, 0, 0, -40, 90, 2, 3]


def test_listing_4_3():
    script = parse(
        """{
[joint_1 90, joint_2 50, joint_3 40 time: 1.2]
[joint_1 90 child, joint_2 50 parent]
}""",
        PLACEHOLDERS,
    )
    one, two = script.phases[0].primitives
    joints = [("joint_1",), ("joint_2",), ("joint_3",)]
    assert angles(one) == [(j, a, "joint") for j, a in zip(joints, (90, 50, 40))]
    assert value(one.time) == 1.2
    assert angles(two) == [(("joint_1",), 90, "child"), (("joint_2",), 50, "parent")]
    assert two.time is None


def test_listings_4_4_and_4_5():
    force = first("[vf (300, 300) on: body_1, by: joint_1]", PLACEHOLDERS)
    assert isinstance(force, VirtualForce)
    assert [n.value for n in force.force] == [300, 300]
    assert (force.on, force.by) == ("body_1", "joint_1")
    balance = first("[vf sb(300, 30) on: trunk, by: leftAnkle]", PLACEHOLDERS)
    assert isinstance(balance.force, BalanceFeedback)
    assert (balance.force.kp.value, balance.force.kd.value) == (300, 30)
    assert (balance.on, balance.by) == ("trunk", "leftAnkle")


def test_listings_4_6_and_4_7():
    ik = first(
        "[ik (0.25, 0.30), (0.20, -0.05) on: rightAnkle rel:\nleftAnkle time: 0.35]", PLACEHOLDERS
    )
    assert isinstance(ik, IK)
    assert [(x.value, y.value) for x, y in ik.targets] == [(0.25, 0.3), (0.2, -0.05)]
    assert (ik.on, ik.rel, value(ik.time)) == (("rightAnkle",), "leftAnkle", 0.35)
    relax = first("[relax joint strength 0.5]", PLACEHOLDERS)
    assert isinstance(relax, Relax)
    assert (relax.joints, relax.strength.value) == (("joint",), 0.5)


def test_listing_4_8_kip_up(vocabulary):
    script = parse_file(SCRIPTS / "kip_up_printed.scl", vocabulary)
    assert [p.name for p in script.phases] == ["roll_back", "straighten", "propel", "land", "stand"]
    assert [len(p.primitives) for p in script.phases] == [2, 3, 8, 6, 7]
    assert len(script.numbers) == 51
    assert script.free_indices() == ()
    propel = script.phases[2]
    assert propel.transition.contact == ContactCondition("touching", "all", both("Foot"))
    push, mirrored = propel.primitives[-2:]
    assert (push.on, push.by) == ("leftHand", "leftShoulder")
    assert (mirrored.on, mirrored.by) == ("rightHand", "rightShoulder")
    assert mirrored.force[1] is push.force[1]
    assert angles(script.phases[4].primitives[-1]) == [(("neckTop", "neckBottom"), 0, "joint")]
    # The thesis bends the knees beyond their limit of -160 degrees, twice.
    assert [w.line for w in script.warnings] == [4, 22]


def test_listing_4_9_sit_to_stand(vocabulary):
    script = parse_file(SCRIPTS / "sit_to_stand_printed.scl", vocabulary)
    assert [p.name for p in script.phases] == ["lean", "standup"]
    assert len(script.numbers) == 14
    forces = script.phases[1].primitives[:4]
    assert [f.by for f in forces] == ["leftAnkle", "rightAnkle"] * 2
    assert [isinstance(f.force, BalanceFeedback) for f in forces] == [True, True, False, False]
    assert script.phases[1].primitives[-1].joints == both("Ankle", "Shoulder", "Elbow", "Wrist")
    assert [w.line for w in script.warnings] == [3]


def test_listing_4_10_walk(vocabulary):
    script = parse_file(SCRIPTS / "walk_printed.scl", vocabulary)
    right, left = script.phases
    assert len(script.numbers) == 23
    assert [type(p) for p in right.primitives] == [
        *(PD, PD, Relax),
        *(IK, PD),
        *(PD, Relax),
        *(VirtualForce, VirtualForce, VirtualForce),
    ]
    assert (left.name, left.mirror_of) == ("left_swing", "right_swing")
    assert (left.primitives[3].on, left.primitives[3].rel) == (("leftAnkle",), "rightAnkle")
    assert angles(left.primitives[0]) == angles(right.primitives[0])
    assert angles(left.primitives[5]) == [
        (("rightHip",), 90, "parent"),
        (("rightKnee",), -30, "joint"),
    ]
    assert right.transition.contact == ContactCondition("touching", "any", ("rightFoot",))
    assert left.transition.contact == ContactCondition("touching", "any", ("leftFoot",))
    assert (value(right.transition.time), value(left.transition.time)) == (0.3, 0.3)
    assert right.transition.time is not left.transition.time
    assert (right.transition.target, left.transition.target) == (1, 0)
    assert script.warnings == ()


def test_listing_4_11_prone_to_stand(vocabulary):
    script = parse_file(SCRIPTS / "prone_to_stand_printed.scl", vocabulary)
    assert [len(p.primitives) for p in script.phases] == [2, 4, 4, 4, 6, 7, 7]
    assert len(script.numbers) == 79
    hands = script.phases[0].transition
    assert hands.contact == ContactCondition("touching", "any", both("Hand"))
    assert value(hands.time) == 0.2
    assert script.phases[0].primitives[0].on == both("Wrist")
    knees = script.phases[2].primitives[0]
    assert angles(knees) == [
        (both("Knee"), -110, "joint"),
        (both("Hip"), 40, "joint"),
        (("waist",), 80, "joint"),
        (both("Elbow"), 60, "joint"),
        (both("Wrist"), 180, "child"),
    ]
    assert value(knees.time) == 0.5
    assert script.phases[6].transition is None
    assert script.warnings == ()


def test_listing_6_1_sit_to_stand_with_arms(vocabulary):
    script = parse_file(SCRIPTS / "sit_to_stand_arms.scl", vocabulary)
    assert len(script.numbers) == 17
    assert script.free_indices() == (0, 3)
    assert [script.label(i) for i in script.free_indices()] == [
        "lean: waist angle",
        "lean: shoulders angle",
    ]
    assert [script.numbers[i].value for i in script.free_indices()] == [30, 20]


# ---- numbers and labels --------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.name for path in SCRIPTS.glob("*.scl")))
def test_every_numeral_is_one_number_in_source_order(vocabulary, name):
    script = parse_file(SCRIPTS / name, vocabulary)
    lines = script.source.split("\n")
    assert [n.index for n in script.numbers] == list(range(len(script.numbers)))
    assert sorted(script.numbers, key=lambda n: n.span.start) == list(script.numbers)
    for number in script.numbers:
        text = script.source[number.span.start : number.span.end]
        assert float(text) == number.value
        assert lines[number.span.line - 1][number.span.column - 1 :].startswith(text)
    assert len(set(script.labels)) == len(script.numbers)
    assert all(script.labels)


@pytest.mark.parametrize(
    "text", ["40", "-40", "+40", ".5", "-.5", "5.", "0.0", "-0.05", "1e-3", "2.5E+1"]
)
@pytest.mark.parametrize("mark", ["", "@", "@ "])
def test_numerals(vocabulary, text, mark):
    target = first(f"[waist {mark}{text} child]", vocabulary).targets[0]
    assert target.angle.value == float(text)
    assert target.angle.free == bool(mark)
    assert target.angle.span.end - target.angle.span.start == len(text)


def test_labels(vocabulary):
    script = parse(
        """{ [shoulders 1, hips 2 child time: 3] [vf (4, 5) on: trunk, by: waist]
        [vf sb(6, 7) on: trunk by: waist] [ik (8, 9) on: wrists rel: leftHip time: 10]
        [relax knees, ankles strength 0.11] }
        and when contact feet after 12
        { (b) [waist 1] [waist 1]
          [waist 1] }""",
        vocabulary,
    )
    assert list(script.labels) == [
        "phase 1: shoulders angle",
        "phase 1: hips angle",
        "phase 1: shoulders, hips time",
        "phase 1: vf trunk by waist force x",
        "phase 1: vf trunk by waist force y",
        "phase 1: sb trunk by waist kp",
        "phase 1: sb trunk by waist kd",
        "phase 1: ik wrists point 1 x",
        "phase 1: ik wrists point 1 y",
        "phase 1: ik wrists time",
        "phase 1: relax knees, ankles strength",
        "phase 1: after time",
        "b: waist angle (line 5, column 22)",
        "b: waist angle (line 5, column 32)",
        "b: waist angle (line 6)",
    ]
    for index in (-1, 15):
        with pytest.raises(IndexError, match="15 numbers"):
            script.label(index)


# ---- symmetry ------------------------------------------------------------------------------


def test_symm_follows_its_original_and_shares_the_numbers(vocabulary):
    script = parse(
        """{ [leftHip 10, waist 20, rightKnee -30 time: 0.1] [symm]
        [ik (1, 2) on: leftWrist rel: rightHip] [symm]
        [relax leftKnee, waist strength 0.4] [symm]
        [gc by: leftAnkle] [symm] [symm] }""",
        vocabulary,
    )
    pd, pd2, ik, ik2, relax, relax2, *gc = script.phases[0].primitives
    assert [t.joints for t in pd2.targets] == [("rightHip",), ("waist",), ("leftKnee",)]
    assert all(a.angle is b.angle for a, b in zip(pd.targets, pd2.targets))
    assert pd2.time is pd.time
    assert (ik2.on, ik2.rel) == (("rightWrist",), "leftHip")
    assert ik2.targets[0][1] is ik.targets[0][1]
    assert relax2.joints == ("rightKnee", "waist")
    assert relax2.strength is relax.strength
    assert gc == [GravityCompensation(side) for side in ("leftAnkle", "rightAnkle", "leftAnkle")]
    assert len(script.numbers) == 7
    assert script.warnings == ()


def test_a_mirrored_phase_holds_written_out_symmetries(vocabulary):
    script = parse(
        """{ (a) [vf (1, 2) on: leftFoot, by: leftKnee] [symm] } after 1
        { (b) : (a) } after 1 { (c) : (b) }""",
        vocabulary,
    )
    feet = [[p.on for p in phase.primitives] for phase in script.phases]
    assert feet == [["leftFoot", "rightFoot"], ["rightFoot", "leftFoot"], ["leftFoot", "rightFoot"]]
    assert script.phases[2].primitives == script.phases[0].primitives


@pytest.mark.parametrize(
    "primitive, hint",
    [
        ("[vf (0, 200) on: trunk, by: waist]", "acts twice"),
        ("[relax knees strength 0.1]", "changes nothing"),
        ("[hips 40 child, waist 0]", "changes nothing"),
    ],
)
def test_symm_of_something_symmetric_is_noted(vocabulary, primitive, hint):
    script = parse(f"{{ {primitive} [symm] }}", vocabulary)
    assert len(script.phases[0].primitives) == 2
    [warning] = script.warnings
    assert "own mirror image" in warning.message and hint in warning.hint


# ---- transitions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, time, event, which, links",
    [
        ("after 2", 2, None, None, None),
        ("when contact leftFoot", None, "touching", "any", ("leftFoot",)),
        ("when contact any feet", None, "touching", "any", both("Foot")),
        ("when contact changed all hands", None, "changed", "all", both("Hand")),
        ("when contact established feet, leftHand", None, "established", "any", None),
        ("when contact lost leftFoot, feet", None, "lost", "any", both("Foot")),
        ("and when contact lost trunk after 0.3", 0.3, "lost", "any", ("trunk",)),
        ("and after 0.3 when contact lost trunk", 0.3, "lost", "any", ("trunk",)),
    ],
)
@pytest.mark.parametrize("ending", ["%s { }", "finally %s backto a"])
def test_transition_types_of_table_4_3(vocabulary, text, time, event, which, links, ending):
    phase = parse(f"{{ (a) }} {ending % text}", vocabulary).phases[0]
    assert value(phase.transition.time) == time
    assert phase.transition.target == (0 if "finally" in ending else 1)
    if event is None:
        assert phase.transition.contact is None
    else:
        expected = links or (*both("Foot"), "leftHand")
        assert phase.transition.contact == ContactCondition(event, which, expected)


# ---- writing styles ------------------------------------------------------------------------


def test_spaces_commas_and_comments_do_not_matter(vocabulary):
    plain = "{ (a) [vf (1, 2) on: trunk, by: waist] [hips 3, knees -4 time: 5] } after 6 { }"
    odd = (
        "\ufeff// first\r\n{(a)[vf(1,2)on:trunk by :waist][hips 3,\tknees -4,time:5]\r\n"
        "} // { [ \r\nafter\n6{}//last"
    )
    assert without_places(parse(plain, vocabulary)) == without_places(parse(odd, vocabulary))


def without_places(script: Script) -> list:
    one, two = script.phases
    force, pd = one.primitives
    return [script.values(), force.on, force.by, angles(pd), value(pd.time), one.name, two]


def test_empty_phases_are_numbered(vocabulary):
    script = parse("{ } after 1 { (named) } after 1 { }", vocabulary)
    assert [p.name for p in script.phases] == ["phase 1", "named", "phase 3"]
    assert [p.primitives for p in script.phases] == [(), (), ()]


def test_keywords_are_good_phase_names(vocabulary):
    for word in sorted(keywords()):
        script = parse(f"{{ ({word}) }} finally after 1 backto {word}", vocabulary)
        assert script.phases[0].name == word
        assert script.phases[0].transition.target == 0


def test_spans_of_phases_primitives_and_transitions(vocabulary):
    script = parse("{ (a)\n [hips 4] [symm] }\nafter 1 { }", vocabulary)
    phase = script.phases[0]
    text = [script.source[s.start : s.end] for s in (phase.span, phase.transition.span)]
    assert text == ["{ (a)\n [hips 4] [symm] }", "after 1"]
    assert (phase.primitives[0].span.line, phase.primitives[0].span.column) == (2, 2)
    assert phase.primitives[1].span == phase.primitives[0].span
    error = script.error(phase.primitives[0].span, "no such chain", "choose another")
    assert str(error).split("\n")[0] == "<script>:2:2: error: no such chain"


# ---- vocabulary ----------------------------------------------------------------------------


def test_groups_are_derived(vocabulary):
    assert vocabulary.joint_groups == {
        **{stem.lower() + "s": both(stem) for stem in ("Shoulder", "Elbow", "Wrist")},
        **{stem.lower() + "s": both(stem) for stem in ("Hip", "Knee", "Ankle")},
        "necks": ("neckTop", "neckBottom"),
    }
    assert list(vocabulary.link_groups) == ["arms", "forearms", "hands", "thighs", "shanks", "feet"]
    assert vocabulary.joints_of("knees") == both("Knee")
    assert vocabulary.joints_of("waist") == ("waist",)
    assert vocabulary.joints_of("feet") == vocabulary.links_of("knees") == ()
    assert plural("leftFoot") == "leftFeet"


def test_ranges_may_be_given_by_group():
    v = Vocabulary.build(["left_hip", "right_hip"], [], {"hips": (-30, 100)})
    assert v.joint_range_deg == {"left_hip": (-30.0, 100.0), "right_hip": (-30.0, 100.0)}


def test_mirror(vocabulary):
    for name in (*vocabulary.joints, *vocabulary.links):
        assert vocabulary.mirror(vocabulary.mirror(name)) == name
    assert vocabulary.mirror("leftFoot") == "rightFoot"
    assert vocabulary.mirror("neckTop") == "neckTop"
    with pytest.raises(KeyError):
        vocabulary.mirror("tail")
    with pytest.raises(ValueError, match="'leftTail' has no counterpart 'rightTail'"):
        Vocabulary.build(["leftTail"], []).mirror("leftTail")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a", "a"], []), "given twice"),
        ((["hips", "leftHip", "rightHip"], []), "'hips' is given twice"),
        ((["a b"], []), "not a word"),
        (([], ["time"]), "keyword"),
        ((["a"], [], {"b": (0, 1)}), "unknown joint 'b'; joints: a"),
        ((["a"], [], {"a": (1, 0)}), "empty"),
        ((["a"], [], {}, {"g": ("b",)}), "unknown joint 'b'"),
        ((["a"], ["l"], {}, {}, {"g": ()}), "no members"),
    ],
)
def test_unusable_vocabularies(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.build(*arguments)


def test_keywords_are_those_of_thegrammar():
    words = {t.pattern.value for t in grammar().terminals if t.pattern.value.isalpha()}
    assert words == keywords()


def test_a_vocabulary_is_hashable(vocabulary):
    assert hash(vocabulary) == hash(Vocabulary.build(vocabulary.joints, vocabulary.links))
