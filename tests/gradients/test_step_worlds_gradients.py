"""The implicit derivative through steps with grips, driven joints, limits of ball joints, and where
the nearest of many contacts are chosen: forward, reverse and central differences, float64."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import (
    Drive,
    Model,
    ModelBuilder,
    ball,
    box,
    free,
    hinge,
    neutral_state,
    plane,
    slide,
    sphere,
)
from jaxsim.simulation.records import MotionControl, no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.gradients.test_step_gradients import differences, inner

pytestmark = pytest.mark.usefixtures("x64_module")

DT, STEPS, SWEEPS = 0.002, 4, 150
CONFIG = TimeStepping(dt=DT, sweeps=SWEEPS, derivative="implicit")
BODY = dict(mass=2.0, inertia=(0.02, 0.03, 0.025))


@dataclass(frozen=True)
class Scene:
    """A model, where it begins, and the numbers of it that matter here."""

    model: Model
    q: list[float]
    qd: list[float]
    numbers: tuple[str, ...]
    config: TimeStepping = CONFIG
    control: Callable = no_control
    solved: dict = field(default_factory=dict)  # what the steps must have met, by StepInfo's field
    also: tuple[list[float], ...] = ()  # other q to begin at


@jax.tree_util.register_static
class Given:
    """A control that does not change."""

    def __init__(self, control):
        self.control = control

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, self.control(model)


def held(hold=None) -> Scene:
    """A rod held by its end to the world, from the other end a crate on another grip; both have
    come apart a little. hold: the grips that are closed."""
    b = ModelBuilder()
    rod = dict(mass=1.0, com=(0.25, 0, 0), inertia=(1e-3, 1 / 48, 1 / 48))
    b.add_link("rod", "world", joints=[free("rod_root")], **rod)
    b.add_link("crate", "world", joints=[free("crate_root")], **BODY)
    b.add_grip("bar", "rod", (0, 0, 0), other_point=(0, 0, 2))
    b.add_grip("hand", "rod", (0.5, 0, 0), "crate", (0.02, 0, 0.1))
    q = [0.001, 0, 2, 1, 0.02, 0.1, 0, 0.5, 0, 1.85, 1, 0.1, 0, 0.05]
    qd = [0, 0.1, 0, 0.3, 0.2, 0.5, 0.2, 0, 0, 0.4, 0.1, -0.2]
    numbers = ("mass", "gravity", "grip_point", "grip_other_point")

    def control(model):
        return replace(no_control(model), closed=None if hold is None else jnp.array(hold))

    forces = np.array([1, 1] if hold is None else hold, bool)
    return Scene(b.build(), q, qd, numbers, control=control, solved={"grip_force": forces})


def driven() -> Scene:
    """A ball that slides on a platform that is moved along, turned and lifted. Its drives began a
    second ago: at the instant of beginning there is no derivative."""
    b = ModelBuilder()
    joints = [
        slide("x", (1, 0, 0), drive=Drive(rate=0.5, begin=-1)),
        slide("z", (0, 0, 1), drive=Drive(rate=0.1, amplitude=0.01, frequency=2.0, begin=-1)),
        hinge("pitch", (0, 1, 0), drive=Drive(amplitude=0.1, frequency=1.3, begin=-1)),
    ]
    b.add_link("platform", "world", mass=1.0, inertia=(1, 1, 1), joints=joints)
    b.add_shape("platform", box((1, 1, 0.05), name="deck", pos=(0, 0, -0.05), friction=0.3))
    b.add_link("ball", "world", joints=[free("root")], **BODY)
    b.add_shape("ball", sphere(0.2, name="ball", friction=0.3))
    b.add_pair("ball", "deck")
    q = [0.501, 0.1, 0.095, 0.618, 0, 0.2815, 1, 0, 0, 0]  # the platform is a little astray
    qd = [0.5, 0, 0, -0.8, 0.3, 0, 0, 0, 0]
    numbers = ("mass", "gravity", "friction", "shape_size", "drive")
    forces = np.array([1] * 3 + [0] * 6, bool)
    return Scene(b.build(), q, qd, numbers, solved={"motion_force": forces})


def controlled() -> Scene:
    """A body on the ground whose arm is moved with a given acceleration, its hand hanging free."""
    b = ModelBuilder()
    b.add_link("body", "world", joints=[free("root")], **BODY)
    for k, at in enumerate([(0.1, 0, -0.1), (-0.1, 0.1, -0.1), (-0.1, -0.1, -0.1)]):
        b.add_shape("body", sphere(0.05, pos=at, name=f"foot{k}"))
    rod = dict(mass=0.5, com=(0, 0, 0.2), inertia=(0.01, 0.01, 0.001))
    b.add_link("arm", "body", pos=(0, 0, 0.1), joints=[hinge("shoulder", (0, 1, 0))], **rod)
    b.add_link("hand", "arm", pos=(0, 0, 0.4), joints=[hinge("elbow", (1, 0, 0))], **rod)
    b.add_shape("world", plane(name="ground", friction=0.5))
    q, qd = [0, 0, 0.149, 1, 0, 0, 0, 0.3, -0.4], [0.3, 0.2, 0, 0, 0, 0, 0.5, 1]

    def control(model):
        on = jnp.arange(8) == 6
        return replace(no_control(model), motion=MotionControl(jnp.where(on, 30.0, 0.0), on))

    forces = np.arange(8) == 6
    numbers = ("mass", "gravity", "friction")
    return Scene(b.build(), q, qd, numbers, control=control, solved={"motion_force": forces})


def turned() -> Scene:
    """A rod on a ball joint that is beyond its limit, or comes to it within the steps."""
    b = ModelBuilder((1.0, 2.0, -9.0))
    rod = dict(mass=1.0, com=(0, 0, 0.5), inertia=(0.1, 0.1, 0.01))
    b.add_link("rod", "world", joints=[ball("neck", limits=(0, 0.5), damping=1.0)], **rod)
    axis = np.array([0.6, 0.7, np.sqrt(1 - 0.36 - 0.49)])
    beyond, within = ([np.cos(a / 2), *(np.sin(a / 2) * axis)] for a in (0.51, 0.49))
    numbers = ("mass", "gravity", "joint_upper", "damping")
    forces = {"limit_torque": np.array([True])}
    return Scene(b.build(), beyond, [2.0, 2.5, 1.5], numbers, solved=forces, also=(within,))


def chosen() -> Scene:
    """Five places for a contact and three rows: a body slides on three feet, its head and a loose
    ball are in the air."""
    b = ModelBuilder()
    b.add_link("loose", "world", joints=[free("loose")], **BODY)
    b.add_shape("loose", sphere(0.1, name="loose"))
    b.add_link("body", "world", joints=[free("root")], **BODY)
    b.add_shape("body", sphere(0.05, pos=(0, 0, 0.2), name="head"))
    for k, at in enumerate([(0.1, 0, -0.1), (-0.1, 0.1, -0.1), (-0.1, -0.1, -0.1)]):
        b.add_shape("body", sphere(0.05, pos=at, name=f"foot{k}"))
    b.add_shape("world", plane(name="ground", friction=0.2))
    model = b.build()
    q = [1, 0, 1, 1, 0, 0, 0, 0, 0, 0.149, 1, 0, 0, 0]
    qd = [0, 0, 0, 0, 0, 0, 0.4, 0.1, 0, 0, 0, 0.2]
    touching = np.array([name.startswith("foot") for name in model.topology.shape_names[:-1]])
    few = replace(CONFIG, contacts=3)
    numbers = ("mass", "gravity", "friction", "shape_pos", "shape_size")
    return Scene(model, q, qd, numbers, few, solved={"contact_force": touching})


SCENES = {
    "grips": held,
    "an open grip": lambda: held([True, False]),
    "driven joints": driven,
    "a given acceleration": controlled,
    "the limit of a ball joint": turned,
    "chosen contacts": chosen,
}


def compiled(scene: Scene):
    """``f(inputs, direction)``: a number of all that comes out, what was solved; its gradient, and
    its derivative along the direction. inputs: q, qd, dt and numbers of the model, by name."""
    zero = neutral_state(scene.model)
    controller = Given(scene.control)

    def number(inputs):
        model = scene.model.replace(**{name: inputs[name] for name in scene.numbers})
        state = zero.replace(q=inputs["q"], qd=inputs["qd"])
        config = replace(scene.config, dt=inputs["dt"])
        result = rollout(
            model, controller, state, config, STEPS, record=lambda s: s.info, backend="xla"
        )
        info = result.record
        forces = (info.contact_force, info.limit_torque, info.grip_force, info.motion_force)
        felt = sum(jnp.sum(jnp.sin(0.01 * force)) for force in forces)
        return jnp.sum(jnp.sin(3 * result.state.q)) + 0.1 * jnp.sum(result.state.qd) + felt, info

    def both(inputs, direction):
        (value, info), reverse = jax.value_and_grad(number, has_aux=True)(inputs)
        forward = jax.jvp(lambda x: number(x)[0], (inputs,), (direction,))[1]
        return value, info, reverse, forward

    return quick_jit(both)


def inputs_of(scene: Scene, q: list[float]) -> dict:
    state = dict(q=jnp.array(q, float), qd=jnp.array(scene.qd, float), dt=np.float64(DT))
    return state | {name: getattr(scene.model, name) for name in scene.numbers}


def directions(inputs: dict, seed: int) -> dict:
    """A random direction in proportion to what it changes; what is infinite stays."""
    rng = np.random.default_rng(seed)
    size = {"q": 0.3, "qd": 1.0, "dt": 1e-3, "shape_size": 0.05, "shape_pos": 0.05}

    def random(x, name):
        scale = size.get(name, 0.5)
        return jnp.where(jnp.isfinite(x), scale * rng.normal(size=np.shape(x)), 0.0)

    return {name: jax.tree.map(lambda x, n=name: random(x, n), x) for name, x in inputs.items()}


# Seconds to compile.
SLOW = ("grips", "an open grip", "a given acceleration", "chosen contacts", "driven joints")
CASES = [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SCENES]


@pytest.mark.parametrize("name", CASES)
def test_it_is_that_of_central_differences(name):
    scene = SCENES[name]()
    f = compiled(scene)
    for q, seed in itertools.product((scene.q, *scene.also), (1, 2)):
        inputs = inputs_of(scene, q)
        direction = directions(inputs, seed)
        _, info, reverse, forward = f(inputs, direction)
        assert info.residual.max() < 1e-10  # solved, as the implicit derivative asks
        assert (info.dropped_contacts == 0).all()
        for field_name, acts in scene.solved.items():
            force = np.abs(getattr(info, field_name)[-1]).reshape(len(acts), -1).max(axis=1)
            assert ((force > 1e-3) == acts).all(), force
        np.testing.assert_allclose(inner(reverse, direction), forward, rtol=1e-8)
        np.testing.assert_allclose(differences(f, inputs, direction), forward, rtol=1e-6)
