"""Arguments that do not fit are told before anything is computed: field, expected and given."""

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.motion import MotionController, TrackingController, Trajectory
from controllers.pose.pd import PoseController
from controllers.scl.load import load_script, script_controller
from jaxsim.characters.planar_human import planar_human
from jaxsim.model import ModelBuilder, ModelError, ball, capsule, hinge, neutral_state, plane
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.events import EventDriven, Slips, event_step
from jaxsim.simulation.measures import Measure, final, largest, total
from jaxsim.simulation.pushes import push, pushes_together
from jaxsim.simulation.records import MotionControl, no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping, step
from jaxsim.simulation.warm_start import WarmStart
from tests.compiling import quick_jit

CONFIG = TimeStepping(dt=0.001, sweeps=2)


def build(joint=None):
    """q = (hinge, hinge or another joint), a capsule over the ground, a grip on the world."""
    b, rod = ModelBuilder(), dict(mass=1.0, inertia=(0.01, 0.01, 0.01))
    upper = hinge("shoulder", (0, 1, 0), kp=10.0, kd=1.0, max_torque=50.0)
    b.add_link("upper", "world", pos=(0, 0, 1), joints=[upper], **rod)
    lower = joint or hinge("elbow", (0, 1, 0), kp=10.0, kd=1.0, max_torque=50.0)
    b.add_link("lower", "upper", pos=(0, 0, -0.3), joints=[lower], **rod)
    b.add_shape("lower", capsule(0.05, 0.1, name="hand"))
    b.add_shape("world", plane(name="ground"))
    b.add_grip("grasp", "lower", (0, 0, 0), other_point=(0, 0, 0.7))
    return b.build()


MODEL = build()
STATE = CONFIG.init(MODEL, neutral_state(MODEL))
HOLD = PoseController(jnp.zeros(2))
PUSH = push(MODEL, "lower", (1.0, 0.0, 0.0))


def run(model=MODEL, controller=HOLD, state=STATE, config=CONFIG, steps=4, **rest):
    return rollout(model, controller, state, config, steps, **rest)


@functools.cache
def seen_now():
    return quick_jit(lambda: observe(MODEL, STATE, CONFIG))()


def refused(error, words, function, *args, **kwargs):
    with pytest.raises(error, match=re.escape(words)):
        function(*args, **kwargs)


def batched(tree, count=3):
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), tree)


VMAP = "a batch of (3,)? One call simulates one character; for a batch use jax.vmap"


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("q", np.zeros((3, 2)), f"state.q has shape (3, 2), expected (2,): {VMAP}"),
        ("q", np.zeros(5), "state.q has shape (5,), expected (2,); the state is of another model"),
        ("q", np.zeros(2, int), "state.q has dtype int32, expected float32"),
        ("q", [0.0, 0.0], "state.q is a list; expected an array of shape (2,)"),
        ("q", np.array([0, np.nan]), "state.q[1] is nan"),
        ("qd", np.zeros(3), "state.qd has shape (3,), expected (2,)"),
        ("qd", np.array([np.inf, 0]), "state.qd[0] is inf"),
        ("time", np.float32(np.nan), "state.time is nan; give a time [s]"),
        ("time", np.zeros(1), "state.time has shape (1,), expected ()"),
        (
            "solver",
            WarmStart(np.zeros(0, np.float32)),
            "state.solver.impulse has shape (0,), expected (6,); the state is of another model",
        ),
        ("broken", np.zeros(1, int), "state.broken has dtype int32, expected bool"),
        ("broken", np.zeros(4, bool), "state.broken has shape (4,), expected (1,)"),
    ],
)
def test_states(field, value, words):
    refused(ModelError, words, run, state=STATE.replace(**{field: value}))


def test_what_the_event_driven_scheme_remembers_is_of_the_model():
    slips = STATE.replace(solver=Slips(np.zeros((9, 3), np.float32)))
    words = "state.solver.tangent has shape (9, 3), expected (2, 3)"
    refused(ModelError, words, run, state=slips, config=EventDriven(), backend="xla")


def test_a_step_needs_what_init_makes():
    bare, obs = STATE.replace(solver=None), seen_now()
    refused(ModelError, "state.solver is None; begin with config.init(model, state)",
            step, MODEL, bare, obs, no_control(MODEL), CONFIG)  # fmt: skip
    other = EventDriven().init(MODEL, STATE)
    refused(ModelError, "state.solver is a Slips", step, MODEL, other, obs, no_control(MODEL),
            CONFIG)  # fmt: skip
    assert run(state=other, backend="xla").finite  # a rollout begins anew


def test_a_batch_of_states_is_the_commonest_mistake():
    states = batched(STATE)
    refused(ModelError, f"state.q has shape (3, 2), expected (2,): {VMAP}", run, state=states)
    refused(ModelError, VMAP, jax.jit(run), state=states)
    refused(ModelError, VMAP, jax.vmap(lambda s: run(state=s)), batched(states))
    refused(ModelError, f"expected (2,): {VMAP}", observe, MODEL, states, CONFIG)
    assert jax.vmap(lambda s: run(state=s))(states).finite.all()


def test_a_state_in_another_precision():
    with jax.enable_x64(True):
        fine = jax.tree.map(lambda x: jnp.asarray(x, float) if x.dtype != bool else x, STATE)
        refused(ModelError, "state.q has dtype float64, expected float32", run, state=fine)
        target = PoseController(np.zeros(2))
        refused(ModelError, "controller.target has dtype float64", run, controller=target)
        words = "the model's arrays are float32, and jax_enable_x64 makes those of now float64"
        refused(ModelError, words, run)


def test_axes_and_masks_are_no_numbers_of_a_config():
    axes = jax.tree.map(lambda _: 0, CONFIG)
    several = jax.tree.map(lambda x: jnp.full(3, x), CONFIG)
    assert jax.vmap(lambda config: config.dt, in_axes=(axes,))(several).shape == (3,)
    assert all(jax.tree.leaves(jax.tree.map(lambda _: True, CONFIG)))
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(CONFIG)[0]]
    assert ".dt" in paths and ".sweeps" not in paths


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(mass=np.float32([1, np.nan])), "model.mass[1] is nan"),
        (dict(mass=np.float32([1, 0])), "model.mass of the link 'lower' is 0.0 kg; give a number"),
        (dict(mass=np.float32([-1, 1])), "model.mass of the link 'upper' is -1.0 kg"),
        (dict(inertia=np.zeros((2, 3, 3), np.float32)), "model.inertia of the link 'upper'"),
        (dict(gravity=np.float32([0, 0, np.nan])), "model.gravity[2] is nan"),
    ],
)
def test_numbers_that_no_body_has(change, words):
    refused(ModelError, words, run, MODEL.replace(**change))


def test_models():
    refused(ModelError, f"model.mass has shape (3, 2), expected (2,): {VMAP}", run,
            MODEL.replace(mass=np.ones((3, 2))))  # fmt: skip
    refused(ModelError, "model.friction has shape (), expected (2,)", run,
            MODEL.replace(friction=0.5))  # fmt: skip
    refused(TypeError, "model is a Topology; expected a Model", run, MODEL.topology)
    turned = build(ball("elbow"))
    refused(ModelError, "state.q has shape (2,), expected (5,)", run, turned)
    five = STATE.replace(q=np.zeros(5, np.float32), qd=np.zeros(4, np.float32))
    aim = PoseController(np.zeros(5))
    refused(ModelError, "joint 'elbow' has length 0; normalise it", run, turned, aim, five)


class Plain:
    """Not registered with JAX."""

    def init(self, model, state, obs):
        return None

    def update(self, memory, model, state, obs, dt):
        return None, no_control(model)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scripted(Plain):
    """What it gives is what a test says."""

    gain: Any = 0.0
    memory: Any = dataclasses.field(default=0.0, metadata={"static": True})
    give: Any = dataclasses.field(default=None, metadata={"static": True})

    def init(self, model, state, obs):
        return jnp.asarray(self.memory)

    def update(self, memory, model, state, obs, dt):
        return self.give(memory, model)


def without(method):
    return dataclasses.make_dataclass("Half", [], namespace={method: lambda *_: None})()


@pytest.mark.parametrize(
    "controller, words",
    [
        (None, "controller is None, which has no method 'init'"),
        (PoseController, "controller is the class PoseController; give one that is made"),
        (without("init"), "controller is a Half, which has no method 'update'"),
        (Plain(), "controller is a Plain, which is no pytree"),
        (Scripted("much"), "controller.gain is 'much'; expected numbers"),
        (STATE, "controller is a State, which has no method 'init'"),
    ],
)
def test_what_is_no_controller(controller, words):
    refused(TypeError, words, run, controller=controller)


TOLD = [
    (
        0.0,
        lambda m, model: no_control(model),
        "controller.update returned a Control; expected a tuple",
    ),
    (0.0, lambda m, model: (m, 3.0), "control is 3.0; expected a Control"),
    (
        0.0,
        lambda m, model: (None, no_control(model)),
        "controller.update: memory is PyTreeDef(None)",
    ),
    (0.0, lambda m, model: (jnp.zeros(2), no_control(model)), "memory has shape (2,), and"),
    (
        np.int32(0),
        lambda m, model: (jnp.zeros(()), no_control(model)),
        "memory has dtype float32, and",
    ),
]


@pytest.mark.parametrize("memory, give, words", TOLD)
def test_what_a_controller_may_not_give(memory, give, words):
    refused(TypeError, words, run, controller=Scripted(memory=memory, give=give), backend="xla")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"torque": np.zeros(5)}, "control.torque has shape (5,), expected (2,)"),
        ({"torque": 1.0}, "control.torque has shape (), expected (2,)"),
        ({"damping": np.zeros((3, 2))}, f"control.damping has shape (3, 2), expected (2,): {VMAP}"),
        ({"torque": np.zeros(2, complex)}, "control.torque has dtype complex64"),
        ({"closed": np.ones(1, int)}, "control.closed has dtype int32, expected bool"),
        ({"closed": np.ones(2, bool)}, "control.closed has shape (2,), expected (1,)"),
        ({"motion": MotionControl(np.zeros(3), np.ones(2, bool))}, "motion.acceleration has shape"),
        ({"motion": MotionControl(np.zeros(2), np.ones(2))}, "control.motion.on has dtype float32"),
    ],
)
def test_controls(changes, words):
    control = dataclasses.replace(no_control(MODEL), **changes)
    obs = seen_now()
    refused(ModelError, words, step, MODEL, STATE, obs, control, CONFIG)
    refused(ModelError, words, event_step, MODEL, STATE, None, control, EventDriven())
    given = Scripted(give=lambda memory, model: (memory, control))
    refused(ModelError, words, run, controller=given)


def path(time, q):
    return Trajectory(np.asarray(time, float), np.asarray(q, float))


@pytest.mark.parametrize(
    "controller, words",
    [
        (PoseController(np.zeros(5)), "controller.target has shape (5,), expected (2,)"),
        (PoseController(np.zeros((3, 2))), f"target has shape (3, 2), expected (2,): {VMAP}"),
        (TrackingController(path([0, 1], np.zeros((2, 5)))), "trajectory.q has shape (2, 5)"),
        (TrackingController(path(0, np.zeros(2))), "trajectory.time has shape (), expected (k,)"),
        (TrackingController(path([1, 0], np.zeros((2, 2)))), "trajectory.time does not rise"),
        (MotionController(path([0], np.zeros((1, 2))), on=np.ones(3, bool)), "controller.on has"),
        (MotionController(path([0], np.zeros((1, 2))), np.ones(2)), "controller.settling_time"),
    ],
)
def test_targets_and_gains(controller, words):
    refused(ModelError, words, run, controller=controller)


def test_a_script_on_another_body():
    human = planar_human()
    walk = script_controller(load_script("walk", human), human)
    refused(ModelError, "compiled for a body of 16 links and 18", run, controller=walk)
    short = walk.replace(values=walk.values[:-1])
    count = len(walk.values)
    words = f"controller.values has shape ({count - 1},), expected ({count},)"
    refused(ModelError, words, short.check, human)
    walk.check(human)


BAD = [
    (dict(dt=0), "dt is 0 s; give a number from 1e-06 to 0.05 s, such as 0.001"),
    (dict(dt=5), "dt is 5 s; give a number"),
    (dict(dt=True), "dt is True s; give a number"),
    (dict(dt=np.float32(-1e-3)), "dt is -0.001"),
    (dict(dt=np.float32(np.nan)), "dt is nan"),
    (dict(dt=np.float64(np.inf)), "dt is inf"),
    (dict(dt=jnp.zeros(())), "config.dt is 0.0 s; give a number"),
    (dict(touch_distance=jnp.asarray(np.nan)), "config.touch_distance is nan"),
    (dict(dt=np.full(3, 1e-3)), f"config.dt has shape (3,), expected (): {VMAP}"),
    (dict(dt="fast"), "dt is 'fast'; give a number"),
    (dict(touch_distance=np.nan), "touch_distance is nan m; give a number"),
    (dict(bounce_speed=None), "config.bounce_speed is None; expected an array"),
]


@pytest.mark.parametrize("numbers, words", BAD)
@pytest.mark.parametrize("kind", [TimeStepping, EventDriven])
def test_numbers_of_a_config(kind, numbers, words):
    refused(ValueError, words, lambda: run(config=kind(**numbers)))


def test_configs_of_another_kind_and_rows():
    obs, control = seen_now(), no_control(MODEL)
    refused(TypeError, "config is 0.001; expected a scheme", run, config=0.001)
    words = "config is an EventDriven; expected a TimeStepping"
    refused(TypeError, words, step, MODEL, STATE, obs, control, EventDriven())
    words = "config is a TimeStepping; expected an EventDriven"
    refused(TypeError, words, event_step, MODEL, STATE, None, control, CONFIG)
    refused(ValueError, "sweeps is 2.0; give a whole", TimeStepping, sweeps=2.0)
    refused(ValueError, "stabilization_time is 0 s; give", TimeStepping, stabilization_time=0)
    refused(ValueError, "warm_start is 2; give a number from 0 to 1", TimeStepping, warm_start=2)
    refused(TypeError, "obs is None; expected an Observation", step, MODEL, STATE, None, control,
            CONFIG)  # fmt: skip
    refused(ModelError, VMAP, step, MODEL, STATE, batched(obs), control, CONFIG)
    refused(TypeError, "control is None; expected a Control", step, MODEL, STATE, obs, None,
            CONFIG)  # fmt: skip


def pushed(**changes):
    return dataclasses.replace(PUSH, **changes)


@pytest.mark.parametrize(
    "pushes, error, words",
    [
        ((PUSH, PUSH), TypeError, "pushes is a tuple; expected a Pushes, as push(...)"),
        (batched(PUSH), ModelError, "pushes.start has shape (3, 1), expected (1,): a batch of"),
        (pushed(force=np.zeros((2, 3))), ModelError, "pushes.force has shape (2, 3)"),
        (
            pushed(direction=np.zeros(2)),
            ModelError,
            "pushes.direction has shape (2,), expected (1,)",
        ),
        (pushed(direction=np.array([np.nan])), ModelError, "pushes.direction[0] is nan"),
        (pushed(link=np.zeros(1)), ModelError, "pushes.link has dtype float32"),
        (pushed(link=np.array([7])), ModelError, "pushes.link[0] is 7; the model has"),
        (pushed(force=np.full((1, 3), np.nan)), ModelError, "pushes.force[0, 0] is nan"),
    ],
)
def test_pushes(pushes, error, words):
    refused(error, words, run, pushes=pushes)


def folding(measure):
    return {"measures": {"a": measure}}


@pytest.mark.parametrize(
    "rest, error, words",
    [
        (dict(steps=2.0), TypeError, "steps is 2.0; give a whole number"),
        (dict(steps=-1), ValueError, "steps is -1; give 0 or more"),
        (dict(record=3), TypeError, "record is 3; expected a function of a Sample"),
        (dict(record_every=0), ValueError, "record_every is 0; give 1 or more"),
        (dict(record=lambda s: s.state.q, record_every=3), ValueError, "does not divide steps=4"),
        (dict(record=lambda s: {"name": "q"}), TypeError, "record returned 'q' at ['name']"),
        (dict(measures=[1]), TypeError, "measures is a list; expected a Mapping"),
        (folding(max), TypeError, "measures['a'] is the function max; expected a Measure"),
        (folding(Measure("x", max)), TypeError, "measures['a'] begins with 'x'"),
        (
            folding(total(lambda s: s.state.q)),
            ValueError,
            "measures['a'] begins with shape () and becomes (2,); give an initial value",
        ),
        (
            folding(Measure(0, lambda v, s: v + s.dt)),
            TypeError,
            "measures['a'] begins with int32 and becomes float32",
        ),
        (folding(Measure(0.0, lambda v, s: (v, v))), TypeError, "both have to be alike"),
    ],
)
def test_measures_records_and_lengths(rest, error, words):
    refused(error, words, run, **rest)
    if "steps" not in rest:
        refused(error, words, jax.jit(lambda s: run(state=s, **rest)), STATE)


def test_a_traced_length():
    refused(TypeError, "steps is traced; it decides", jax.jit(lambda n: run(steps=n)), 4)


@pytest.mark.parametrize("backend", ["xla", "fused"])
def test_vector_measures_hold_from_end_to_end(backend):
    """With a record of every second step, alone, under vmap, and under jit."""
    zero = jnp.zeros(2)
    places = {"q": zero, "hand": jnp.zeros((2, 3))}
    measures = {
        "way": total(lambda s: s.state.qd, zero),
        "far": largest(lambda s: s.state.q, zero - jnp.inf),
        "last": final(lambda s: {"q": s.state.q, "hand": s.obs.kin.com}, places),
    }

    def one(state):
        rest = dict(record=lambda s: s.state.q, record_every=2, backend=backend)
        return run(state=state, steps=6, measures=measures, **rest)

    states = batched(STATE).replace(qd=jnp.array([[0.0, 0], [1, 0], [0, -1]]))
    together = quick_jit(jax.vmap(one))(states)
    assert together.record.shape == (3, 3, 2) and together.finite.all()
    m = together.measures
    np.testing.assert_allclose(m["last"]["q"], m["way"] - 0.001 * states.qd, atol=1e-6)
    assert m["last"]["hand"].shape == (3, 2, 3)
    assert (m["far"] >= together.record.max(axis=1)).all()
    if backend == "fused":
        alone = one(jax.tree.map(lambda x: x[1], states))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y[1], rtol=1e-5), alone, together)


def test_what_fits_passes():
    """Numbers as Python has them, pushes, integer targets: nothing is refused for nothing."""
    state = STATE.replace(time=0.0, q=np.zeros(2), qd=np.zeros(2))
    pushes = pushes_together(PUSH, PUSH)
    target = PoseController(np.zeros(2, int))
    quick_jit(lambda: run(controller=target, state=state, pushes=pushes, backend="xla").finite)()
