"""Wrong scripts: each mistake is shown at its place, in words a script author knows."""

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.scl.errors import ScriptError, SourceText
from controllers.scl.grammar import grammar
from controllers.scl.load import script_controller
from controllers.scl.names import Vocabulary
from controllers.scl.parser import parse, parse_file
from jaxsim.characters.planar_human import planar_human

SCRIPTS = Path(__file__).resolve().parents[3] / "controllers" / "scripts"


def place_of(marked: str) -> tuple[str, int, int]:
    """A script without its mark '¦', and the line and column where the mark stood."""
    assert marked.count("¦") == 1
    before = marked.partition("¦")[0]
    return (
        marked.replace("¦", ""),
        before.count("\n") + 1,
        len(before) - (before.rfind("\n") + 1) + 1,
    )


# A script with '¦' at the place of the error, a part of the message, a part of the hint.
NAMES = [
    ("{ [¦leftSholder 180] }", "unknown joint 'leftSholder'", "did you mean 'leftShoulder'?"),
    ("{ [hips 4, ¦Knees 3] }", "unknown joint 'Knees'", "did you mean 'knees'?"),
    ("{ [¦xyz 180] }", "unknown joint 'xyz'", "joints: neckTop, neckBottom, waist, "),
    ("{ [relax hips, ¦kneees strength 0.1] }", "unknown joint 'kneees'", "'knees'?"),
    ("{ [vf (0, 2) on: ¦tronk, by: waist] }", "unknown link 'tronk'", "did you mean 'trunk'?"),
    ("{ [vf (0, 2) on: trunk, by: ¦wast] }", "unknown joint 'wast'", "did you mean 'waist'?"),
    ("{ [ik (0, 2) on: ¦wist rel: leftHip] }", "unknown joint 'wist'", "?"),
    ("{ [ik (0, 2) on: wrists rel: ¦qqq] }", "unknown joint 'qqq'", "joints: "),
    ("{ [gc by: ¦leftAnkel] }", "unknown joint 'leftAnkel'", "did you mean 'leftAnkle'?"),
    ("{ } when contact ¦foots { }", "unknown link 'foots'", "did you mean 'leftFoot'?"),
    ("{ [¦leftFoot 3] }", "'leftFoot' is a link, but a PD controller needs a joint", "joints: "),
    ("{ [relax ¦feet strength 0] }", "'feet' is a link, but relax needs a joint", "joints: "),
    ("{ [vf (0, 2) on: ¦waist, by: waist] }", "'waist' is a joint, but 'on:' needs a link", "link"),
    (
        "{ [vf (0, 2) on: trunk, by: ¦head] }",
        "'head' is a link, but 'by:' needs a joint",
        "joint",
    ),
    ("{ [ik (0, 2) on: ¦hands rel: waist] }", "'on:' of ik needs a joint", "joints: "),
    ("{ } when contact ¦leftHip { }", "'when contact' needs a link", "links: "),
    ("{ [vf (0, 2) on: ¦hands, by: waist] }", "'on:' needs one link", "leftHand, rightHand"),
    ("{ [vf (0, 2) on: trunk, by: ¦hips] }", "'by:' needs one joint", "leftHip, rightHip"),
    ("{ [gc by: ¦ankles] }", "'by:' needs one joint", "[symm]"),
    ("{ [ik (0, 2) on: wrists rel: ¦hips] }", "'rel:' needs one joint", "leftHip, rightHip"),
]
WORDS = [
    ("{ [¦relaks hips strength 0.1] }", "unknown primitive or joint 'relaks'", "mean 'relax'?"),
    ("{ [¦force (0, 2) on: trunk, by: waist] }", "unknown primitive or joint 'force'", "vf, ik,"),
    ("{ [¦symmetric] }", "unknown primitive or joint 'symmetric'", "did you mean 'symm'?"),
    ("{ [¦trunk] }", "unknown primitive or joint 'trunk'", "a primitive begins with a joint"),
    ("{ [¦sb(300, 30) on: trunk] }", "a primitive cannot begin with 'sb'", "[vf sb(300, 30) on:"),
    ("{ [¦] }", "a primitive is missing after '['", "a primitive begins with a joint"),
    ("{ [hips 4 ¦chlid] }", "unknown word 'chlid'", "did you mean 'child'?"),
    ("{ [hips 4 ¦tme: 3] }", "unknown word 'tme'", "did you mean 'time'?"),
    ("{ [vf (0, 2) ¦om: trunk, by: waist] }", "expected ',' or 'on:', found 'om'", "vf (0"),
    ("{ [relax hips ¦strenth 0.1] }", "unknown word 'strenth'", "did you mean 'strength'?"),
    ("{ [hips 4 ¦knees 3] }", "a comma is missing before 'knees'", "[hips 40, knees -90"),
    ("{ [hips 4 child ¦parent] }", "found 'parent'", "PD control reads"),
    ("{ [hips 4 time ¦5] }", "':' is missing after 'time'", "time: 0.5"),
    ("{ [vf (0, 2) on: trunk¦] }", "expected ',' or 'by:', found ']'", "a virtual force reads"),
    ("{ [vf (0 ¦2) on: trunk, by: waist] }", "',' is missing after '0'", "[vf (0, 200)"),
    ("{ [vf ¦2, 3 on: trunk, by: waist] }", "expected '(' or 'sb', found '2'", "[vf (0, 200)"),
    ("{ [vf (0, 2¦, 3) on: trunk, by: waist] }", "expected ')', found ','", "[vf (0, 200)"),
    ("{ [vf (0, 2) on: ¦, by: waist] }", "a link is missing after 'on:'", "on: leftFoot"),
    ("{ [vf (0, 2) on: trunk, by: ¦] }", "a joint is missing after 'by:'", "by: waist"),
    ("{ [ik (0, 2) on: ¦rel: waist] }", "a joint is missing after 'on:'", "on: rightAnkle"),
    ("{ [relax ¦strength 0.1] }", "a joint is missing after 'relax'", "relaxed joints read"),
    ("{ [hips 4] [vf (0, 2) on: ¦] }", "a link is missing after 'on:'", "a virtual force reads"),
    ("{ [hips 4] [ik (0, 2) on: ¦] }", "a joint is missing after 'on:'", "inverse kinematics read"),
    ("{ [relax hips strength 0.1] [hips 4 child ¦5] }", "found '5'", "PD control reads"),
    ("{ [gc¦] }", "'by:' is missing after 'gc'", "[gc by: leftAnkle]"),
    ("{ [symm ¦leftHip] }", "expected ']', found 'leftHip'", "symmetry reads [symm]"),
    ("{ ¦hips 4 }", "found 'hips'", "a phase reads { (name) [hips 40"),
    ("{ (roll ¦back) }", "expected ')', found 'back'", "a phase name is one word"),
    ("{ (¦2) }", "a phase name is missing after '('", "a phase name is one word"),
    ("{ (a) } after 1 { (b) : ¦a }", "'(' is missing after ':'", "(left_swing) : (right"),
    ("¦[hips 4]", "a primitive outside of a phase", "between the { }"),
    ("¦hips 4", "unknown word 'hips'", "a phase reads"),
    ("{ } ¦4 { }", "found '4'", "a transition reads"),
    ("{ } ¦afte 4 { }", "unknown word 'afte'", "did you mean 'after'?"),
    ("{ } when ¦feet { }", "'contact' is missing after 'when'", "when contact all feet"),
    ("{ } when contact ¦loss feet { }", "unknown word 'loss' after 'contact'", "mean 'lost'?"),
    ("{ } when contact ¦{ }", "a link is missing after 'contact'", "when contact all feet"),
    ("{ } when contact feet, ¦after 2 { }", "a link is missing after ','", "a transition reads"),
]
BRACKETS = [
    ("{ [hips 4¦ }", "']' is missing", "the '[' on line 1, column 3 is not closed"),
    ("{\n[hips 4¦\n[knees 3]\n}", "']' is missing", "the '[' on line 2, column 1"),
    ("{ [hips 4¦", "']' is missing", "the '[' on line 1, column 3"),
    ("{ [hips 4 time: 1¦ after 3 { }", "']' is missing", "the '[' on line 1, column 3"),
    ("{ [hips 4]¦\nafter 2\n{ }", "'}' is missing", "the '{' on line 1, column 1"),
    ("{ [hips 4]¦", "'}' is missing", "the '{' on line 1, column 1"),
    ("{¦ { } }", "'}' is missing", "the '{' on line 1, column 1"),
    ("{ (roll¦ [hips 4] }", "')' is missing", "the '(' on line 1, column 3"),
    ("{ (a) } after 1 { (b) : (a¦ }", "')' is missing", "the '(' on line 1, column 25"),
    ("{ [vf (0, 2¦ on: trunk, by: waist] }", "')' is missing", "the '(' on line 1, column 7"),
    ("{ [vf sb(0, 2¦] }", "')' is missing", "the '(' on line 1, column 9"),
    ("{ } ¦}", "this '}' closes nothing", "remove it"),
    ("{ ¦] }", "this ']' closes nothing", "remove it, or add the '['"),
    ("{ [hips 4¦) ] }", "this ')' closes nothing", "remove it, or add the '('"),
]
NUMBERS = [
    ("{ [hips¦] }", "a number is missing after 'hips'", "[hips 40"),
    ("{ [hips¦, 4] }", "a number is missing after 'hips'", "[hips 40"),
    ("{ [hips @¦] }", "a number is missing after '@'", "[hips 40"),
    ("{ [hips¦\n[knees 3] }", "a number is missing after 'hips'", "[hips 40"),
    ("{ [hips 4 time:¦] }", "a number is missing after 'time:'", "time: 0.5"),
    ("{ [vf (0, ¦) on: trunk, by: waist] }", "a number is missing after ','", "[vf (0, 200)"),
    ("{ [relax hips strength¦] }", "a number is missing after 'strength'", "strength 0.1"),
    ("{ } after ¦{ }", "a number is missing after 'after'", "`after 0.5`"),
    ("{ } after¦", "a number is missing after 'after'", "`after 0.5`"),
    ("{ [hips 4 time: ¦-1] }", "a time cannot be negative", "0"),
    ("{ [ik (0, 2) on: wrists rel: waist time: ¦-1] }", "a time cannot be negative", "0"),
    ("{ } after ¦-0.5 { }", "a time cannot be negative", "0"),
    ("{ [relax hips strength ¦1.01] }", "strength 1.01 is outside 0 to 1", "damping"),
    ("{ [relax hips strength ¦-0.1] }", "strength -0.1 is outside 0 to 1", "damping"),
    ("{ } after ¦1e999 { }", "the number 1e999 is too large", ""),
    ("{ } after ¦1e30 { }", "the number 1e30 is too large; give a number from -1e+09", ""),
    ("{ [hips ¦-@20] }", "the sign stands before the '@'", "write @-20"),
    ("{ [hips ¦30deg] }", "'30deg' cannot be read as a number", "a number reads 40"),
    ("{ [hips ¦1.2.3] }", "'1.2.3' cannot be read as a number", "a number reads 40"),
    ("{ [hips¦-40] }", "'-40' cannot be read as a number", "on both sides"),
    ("{ [hips ¦−40] }", "unexpected character '−'", "write '-' from the keyboard"),
    ("{ [hips 4] } ¦# note", "unexpected character '#'", "a comment begins with //"),
    ("{ ¦/* note */ }", "unexpected character '/'", "a comment begins with //"),
    ("{ [hips 4¦;] }", "unexpected character ';'", ""),
    ("{ ¦\x00 }", "unexpected character U+0000", ""),
]
ORDER = [
    ("{ } ¦{ }", "a transition is missing between two phases", "write `after 0.5`"),
    ("{ } after 1 ¦after 2 { }", "a second transition", "`and when contact feet after 0.5`"),
    ("{ } when contact feet ¦after 2 { }", "a second transition", "to wait for both"),
    ("¦after 2 { }", "a transition before the first phase", "begin with a phase"),
    ("{ } ¦after 2", "a transition after the last phase without 'finally'", "backto"),
    ("{ (a) } finally after 2¦", "'backto' is missing", "name the phase"),
    ("{ (a) } finally after 2 backto¦", "a phase name is missing after 'backto'", "backto"),
    ("{ (a) } finally ¦backto a", "a condition is missing after 'finally'", "finally after 0.5"),
    ("{ (a) } ¦finally after 1 backto a { }", "'finally' before another phase", "last phase"),
    ("{ (a) } after 1 ¦backto a { }", "'backto' without 'finally'", "last phase"),
    ("{ (a) }\nfinally after 2\n  ¦bacto a", "unknown word 'bacto'", "did you mean 'backto'?"),
    ("{ (a) }\nfinally after 2\n¦xyz a", "unknown word 'xyz'", "a transition reads"),
    ("{ [vf (0, 2)\n ¦om: trunk, by: waist] }", "expected ',' or 'on:', found 'om'", "vf (0"),
    ("{ (rise) } finally after 2 backto ¦rize", "no phase 'rize' to go back to", "'rise'?"),
    ("{ (a) } finally after 2 backto ¦xyz", "no phase 'xyz' to go back to", "named phases: a"),
    ("{ } finally after 2 backto ¦xyz", "no phase 'xyz' to go back to", "{ (name) ... }"),
    ("{ (a) } after 1\n{ (¦a) }", "already a phase named 'a'", "line 1"),
    ("{ (rise) } after 1 { (b) : (¦rize) }", "no phase 'rize' before this one", "'rise'?"),
    ("{ (a) : (¦b) } after 1 { (b) }", "no phase 'b' before this one", "{ (name)"),
    ("{ (a) } after 1 { (b) : (a) ¦[hips 4] }", "cannot have primitives of its own", "remove"),
    ("{ ¦[symm] }", "there is no primitive before [symm]", "repeats the primitive"),
    ("{ [hips 4] } after 1 { ¦[symm] }", "there is no primitive before [symm]", "same phase"),
    ("{ } and when contact feet ¦{ }", "'after' is missing", "`and when contact"),
    ("{ } and after 2 ¦{ }", "'when' is missing", "`and when contact"),
    ("{ } and ¦{ }", "'after' or 'when' is missing", "`and when contact"),
    ("{ } when contact feet and after 2 ¦{ }", "'when' is missing", "`and when contact"),
    ("¦", "the script has no phase", "a script is a sequence of phases"),
    ("¦ \n// nothing here\n", "the script has no phase", "a script is a sequence of phases"),
]
CASES = [*NAMES, *WORDS, *BRACKETS, *NUMBERS, *ORDER]


@pytest.mark.parametrize("marked, message, hint", CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("before", ["", "// one\n\t \t"], ids=["first", "tabs"])
def test_mistakes(vocabulary, marked, message, hint, before):
    if before and marked.startswith("¦") and "no phase" in message:
        before = ""  # an empty script is shown at its very beginning
    text, line, column = place_of(before + marked)
    with pytest.raises(ScriptError) as caught:
        parse(text, vocabulary, "some.scl")
    error = caught.value
    assert message in error.message
    if before:
        hint = hint.partition("line 1")[0].partition("line 2")[0]
    assert hint in error.hint
    assert (error.file, error.line, error.column) == ("some.scl", line, column)
    assert error.source_line == text.split("\n")[line - 1]
    check_layout(error)


def check_layout(error: ScriptError) -> None:
    head, source, caret, *hint = str(error).split("\n")
    assert head == f"{error.file}:{error.line}:{error.column}: error: {error.message}"
    assert source == error.source_line
    assert caret.endswith("^")
    # The caret stands under its character, whatever the tab width.
    for width in (1, 4, 8):
        before = source[: error.column - 1].expandtabs(width)
        assert len(caret.expandtabs(width)) - 1 == len(before)
    assert hint == ([f"hint: {error.hint}"] if error.hint else [])


def test_layout_of_an_error(vocabulary):
    with pytest.raises(ScriptError) as caught:
        parse("{\n\t[leftSholder 180]\n}", vocabulary, "raise.scl")
    assert str(caught.value) == (
        "raise.scl:2:3: error: unknown joint 'leftSholder'\n"
        "\t[leftSholder 180]\n"
        "\t ^\n"
        "hint: did you mean 'leftShoulder'?"
    )


def test_one_sided_names_are_not_mirrored():
    vocabulary = Vocabulary.build(["leftTail", "waist"], ["body"])
    for text, column in (
        ("{ [leftTail 3] [symm] }", 16),
        ("{ (a) [leftTail 3] } after 1 { (b) : (a) }", 39),
    ):
        with pytest.raises(
            ScriptError, match="'leftTail' has no counterpart 'rightTail'"
        ) as caught:
            parse(text, vocabulary)
        assert caught.value.column == column


@pytest.mark.parametrize("joint", ["waist", "neckBottom", "leftHip", "rightKnee", "knees"])
def test_ik_on_what_is_no_limb_of_two_links(joint):
    text = f"{{ (a) }}\nafter 1 {{\n  [ik (0.1, 0.2) on: {joint} rel: leftHip] }}"
    with pytest.raises(ScriptError) as caught:
        script_controller(text, planar_human())
    error = caught.value
    who = "leftKnee" if joint == "knees" else joint
    assert error.message.endswith(f"whose end is a wrist or an ankle; '{who}' ends none")
    assert error.hint == "joints that end one: leftWrist, leftAnkle, rightWrist, rightAnkle"
    assert (error.line, error.column) == (3, 3)
    check_layout(error)


# ---- warnings ------------------------------------------------------------------------------


def test_an_angle_outside_its_range_is_noted(vocabulary):
    [warning] = parse("{\n\t[waist 0, knees @-170] }", vocabulary, "x.scl").warnings
    assert str(warning).split("\n") == [
        "x.scl:2:19: warning: knees: -170 deg is outside the range of -160 to 0 deg",
        "\t[waist 0, knees @-170] }",
        "\t                 ^",
        f"hint: {warning.hint}",
    ]


@pytest.mark.parametrize(
    "target, who",
    [
        ("necks 60", ["neckBottom"]),
        ("necks -60", ["neckTop", "neckBottom"]),
        ("knees -170 child", []),
        ("knees -170 parent", []),
        ("knees -160", []),
        ("leftKnee 0.001", ["leftKnee"]),
    ],
)
def test_which_joints_are_noted(vocabulary, target, who):
    warnings = parse(f"{{ [{target}] }}", vocabulary).warnings
    assert [w.message.partition(":")[0] for w in warnings] == who


def test_mirrored_copies_are_not_noted_again(vocabulary):
    script = parse("{ (a) [leftKnee -170] [symm] } after 1 { (b) : (a) } after 1 { }", vocabulary)
    assert len(script.warnings) == 1


# ---- files ---------------------------------------------------------------------------------


def test_a_file_keeps_its_line_breaks(vocabulary, tmp_path):
    path = tmp_path / "a.scl"
    path.write_bytes(b"\xef\xbb\xbf{\r\n\t[hipps 4]\r\n}")
    with pytest.raises(ScriptError) as caught:
        parse_file(path, vocabulary)
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert caught.value.source_line == "\t[hipps 4]"
    path.write_bytes(b"\xef\xbb\xbf{ [hipps 4] }\r\n")
    with pytest.raises(ScriptError) as caught:
        parse_file(path, vocabulary)
    assert (caught.value.line, caught.value.column) == (1, 4)
    assert caught.value.source_line == "{ [hipps 4] }"
    assert caught.value.file == str(path)
    path.write_bytes(b"{ [hips 4] }\r\n")
    assert parse_file(str(path), vocabulary).source == "{ [hips 4] }\r\n"


def test_unreadable_files(vocabulary, tmp_path):
    (tmp_path / "walk.scl").write_text("{ }")
    for path, message, hint in (
        (tmp_path / "wakl.scl", "there is no such file", "did you mean 'walk.scl'?"),
        (tmp_path / "none" / "a.scl", "there is no such file", ""),
        (tmp_path, "this is a directory, not a script", "name one script in it"),
        (tmp_path / "walk.scl" / "a", "the file cannot be read", ""),
    ):
        with pytest.raises(ScriptError) as caught:
            parse_file(path, vocabulary)
        assert message in caught.value.message
        assert hint in caught.value.hint
        assert str(caught.value).startswith(f"{path}: error: {caught.value.message}")
        assert (caught.value.line, caught.value.column) == (0, 0)


def test_a_file_that_is_not_utf8(vocabulary, tmp_path):
    path = tmp_path / "latin.scl"
    path.write_bytes("{\n// Grüße é\n}".encode("latin-1"))
    with pytest.raises(ScriptError, match="byte 0xfc is not UTF-8 text") as caught:
        parse_file(path, vocabulary)
    assert (caught.value.line, caught.value.column) == (2, 6)
    assert "UTF-8" in caught.value.hint
    check_layout(caught.value)


def test_errors_survive_pickling(vocabulary):
    with pytest.raises(ScriptError) as caught:
        parse("{ [hipps 4] }", vocabulary)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_positions_with_every_kind_of_line_break():
    source = SourceText("a\nb\r\nc\rd", "x")
    assert [source.position(i) for i in (0, 1, 2, 5, 7, 8)] == [
        *((1, 1), (1, 2), (2, 1)),
        *((3, 1), (4, 1), (4, 2)),
    ]
    assert [source.line(i) for i in (1, 2, 3, 4)] == ["a", "b", "c", "d"]


# ---- any text at all -----------------------------------------------------------------------

PIECES = re.findall(r"\w+|[-+]?[\d.]+|\S", (SCRIPTS / "walk.scl").read_text())
EXTRA = ["[", "]", "{", "}", "(", ")", ",", ":", "@", "-1", "sb", "gc", "by", "foo", "//", "\n"]
# Names that only the parser's own messages hold; the short ones may occur in a random text.
TERMINALS = sorted(t.name for t in grammar().terminals if len(t.name) > 3)
JARGON = re.compile(rf"\b({'|'.join(TERMINALS)})\b|\$END|Token|lark")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_damaged_script_parses_or_is_explained(vocabulary, data):
    pieces = list(PIECES)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(pieces)))
        gone = data.draw(st.integers(0, 3))
        added = data.draw(st.lists(st.sampled_from([*EXTRA, *sorted(set(PIECES))]), max_size=2))
        pieces[start : start + gone] = added
    check_explained(" ".join(pieces), vocabulary)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("{}[]()@:,. -\t\n1e/ahipson") | st.characters(), max_size=40))
def test_any_text_parses_or_is_explained(vocabulary, text):
    check_explained(text, vocabulary)


def check_explained(text: str, vocabulary: Vocabulary) -> None:
    try:
        parse(text, vocabulary)
    except ScriptError as error:
        if not JARGON.search(text):  # a message may quote what the user wrote
            assert not JARGON.search(error.message + error.hint)
        lines = re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))
        assert error.source_line == lines[error.line - 1]
        assert 1 <= error.column <= len(error.source_line) + 1
