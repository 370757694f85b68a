"""A primitive from its class alone: grammar, messages, mirror image, numbers, tables, motion."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.scl.errors import ScriptError
from controllers.scl.grammar import keywords
from controllers.scl.load import script_controller
from controllers.scl.names import Vocabulary, vocabulary
from controllers.scl.parser import parse
from controllers.scl.primitive import SIDED, JointTargets, Primitive, by_joint, role
from controllers.scl.primitives.registry import PRIMITIVES
from controllers.scl.roles import TIME, Role, within
from controllers.scl.script import number_roles
from controllers.scl.source import ScriptSource
from controllers.scl.trees import subtree, words
from controllers.scl.writer import mark_all, rewrite
from jaxsim.characters.planar_human import planar_human, posed
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.scenarios.find import scenario
from optimize.sweeps.quantities import Quantity, quantity

RATIO = Role("ratio", "1", within(2.0, 0.5), least=-2.0, most=2.0)


class CopyRow(NamedTuple):
    joint: Any
    other: Any
    ratio: Any


@dataclass(frozen=True)
class Copy(Primitive):
    """`[copy joint of: joint ratio: r beside: link]`: a joint tracks another one's angle."""

    keyword = "copy"
    syntax = "NAME of ratio site?"
    rules = """
of: "of" ":" NAME
ratio: "ratio" ":" number
site: "beside" ":" NAME
"""
    usage = "a copy reads [copy leftKnee of: rightKnee ratio: 0.5]"
    links = ("beside",)

    joint: str = field(metadata=SIDED)
    other: str = field(metadata=SIDED)
    ratio: Any = field(metadata=role(RATIO))

    @classmethod
    def read(cls, tree, reader):
        [joint] = reader.joints(words(tree, "NAME")[0], "a copy")
        [number] = reader.numbers(subtree(tree, "ratio"), f"copy {joint} ratio")
        return cls(joint, reader.joint(tree, "of"), number)

    def rows(self, compiler):
        if self.joint == self.other:
            raise compiler.error(
                self.span, f"'{self.joint}' would copy itself", "name another joint"
            )
        return [CopyRow(compiler.joint(self.joint), compiler.joint(self.other), self.ratio.index)]

    @classmethod
    def joints_of(cls, row):
        return (row.joint,)

    @classmethod
    def table(cls, phases, compiler):
        return by_joint(phases, len(compiler.joints), CopyRow(-1, 0, compiler.zero))

    @classmethod
    def joint_targets(cls, table, step):
        return JointTargets(step.angles[step.row(table.other)] * step.numbers(table.ratio), 0.5)


@pytest.fixture(autouse=True)
def registered():
    PRIMITIVES.append(Copy)
    yield
    PRIMITIVES.remove(Copy)


@pytest.fixture(scope="module")
def model():
    return planar_human()


TEXT = "{ (a) [hips 20] [copy leftKnee of: rightKnee ratio: @0.5] [symm] } after 0.01 { (b) : (a) }"


def test_it_is_parsed_mirrored_and_labelled(vocabulary):
    script = parse(TEXT, vocabulary)
    first, second = script.phases
    number = script.numbers[1]
    left = Copy("leftKnee", "rightKnee", number)
    right = Copy("rightKnee", "leftKnee", number)
    assert first.primitives[1:] == (left, right) and second.primitives[1:] == (right, left)
    assert first.primitives[1].span.column == 17
    assert script.labels == ("a: hips angle", "a: copy leftKnee ratio", "a: after time")
    assert {"copy", "of", "ratio", "beside"} <= keywords()
    with pytest.raises(ValueError, match="keyword of the language"):
        Vocabulary.build(["copy"], [])
    PRIMITIVES.remove(Copy)
    assert "copy" not in keywords()
    with pytest.raises(ScriptError, match="unknown primitive or joint 'copy'"):
        parse(TEXT, vocabulary)
    PRIMITIVES.append(Copy)


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("{ [cpoy leftKnee of: rightKnee] }", 4, "unknown primitive or joint 'cpoy'", "'copy'"),
        ("{ [copy of: rightKnee] }", 9, "a joint is missing after 'copy'", "a copy reads"),
        ("{ [copy waist of: ] }", 19, "a joint is missing after 'of:'", "a copy reads"),
        ("{ [copy waist of waist] }", 18, "':' is missing after 'of'", "a copy reads"),
        ("{ [copy waist of: waist ratio: 1 beside: ] }", 42, "a link is missing after", "a copy"),
        ("{ [copy waist off: waist] }", 15, "unknown word 'off'", "did you mean 'of'?"),
        ("{ [copy trunk of: waist ratio: 1] }", 9, "a copy needs a joint", "joints: "),
        ("{ [copy waist of: knees ratio: 1] }", 19, "'of:' needs one joint", "[symm]"),
        ("{ [ratio waist] }", 4, "a primitive cannot begin with 'ratio'", "a copy reads"),
        ("{ [] }", 4, "a primitive is missing after '['", "relax, symm, gc, copy"),
    ],
)
def test_mistakes_are_explained(vocabulary, text, column, message, hint):
    with pytest.raises(ScriptError) as caught:
        parse(text, vocabulary)
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.column == column


def test_what_the_body_cannot_do_is_named_at_its_place(model):
    with pytest.raises(ScriptError, match="'waist' would copy itself") as caught:
        script_controller("{\n [copy waist of: waist ratio: 1] }", model)
    assert (caught.value.line, caught.value.column) == (2, 2)


def test_its_numbers_are_tuned_by_their_role(model):
    script = parse(TEXT, vocabulary(model))
    assert number_roles(script)[1] == RATIO and number_roles(script)[2] == TIME
    source = ScriptSource(script=script, model=model)
    assert source.range_of(1) == (-1.5, 2.5, 0.5) and source.units()["values[1]"] == RATIO.unit
    assert rewrite(script, [25, 0.75, 0.02]) == TEXT.replace("0.5]", "0.75]").replace(
        "hips 20", "hips 25"
    ).replace("0.01", "0.02")
    assert mark_all(parse(TEXT, vocabulary(model))).count("@") == 3
    made = scenario("walk", {"controller.text": TEXT, "controller.file": "copy.scl"})
    assert quantity(made, "controller.values[1]") == Quantity("1", -2.0, 2.0)
    assert float(made.get("a: copy leftKnee ratio")) == 0.5


def test_it_simulates_and_a_changed_number_compiles_nothing_again(model):
    made = script_controller(TEXT, model)
    assert made.program == script_controller(TEXT.replace("0.5]", "0.7]"), model).program
    state = posed(model, {"leftKnee": -60.0, "rightKnee": -20.0})
    obs = observe(model, state, TimeStepping())
    _, control = made.update(made.init(model, state, obs), model, state, obs, 0.001)
    top = model.topology
    knee, other = top.dof("leftKnee"), top.dof("rightKnee")
    expected = 0.5 * model.gain_p[knee] * np.deg2rad(0.5 * -20.0 + 60.0)
    limit = model.torque_limit[knee]
    np.testing.assert_allclose(control.torque[knee], min(expected, limit), rtol=1e-5)

    traces = []

    @jax.jit
    def final_angles(controller):
        traces.append(1)
        result = rollout(model, controller, state, TimeStepping(), 30, backend="xla")
        return result.state.q[jnp.array([knee, other])]

    near, far = final_angles(made), final_angles(made.replace(values=made.values.at[1].set(1.5)))
    assert len(traces) == 1
    assert np.isfinite(near).all() and np.abs(near - far).max() > 1e-3
