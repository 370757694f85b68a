"""What no body should be put through is bounded and told, and touches no other member of a batch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.constraints.rows import row_layout
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.model import ModelBuilder, box, capsule, free, hinge, plane, sphere
from jaxsim.model.state import neutral_state
from jaxsim.simulation.events import EventConfig
from jaxsim.simulation.rollout import failed_members, final, largest, rollout
from jaxsim.simulation.step import Control, StepConfig
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

HALF, DT, STEPS = 0.1, 0.002, 500
CONFIGS = {"velocities": StepConfig(dt=DT), "events": EventConfig(dt=DT, parts=8, iterations=50)}
by_both = pytest.mark.parametrize("scheme", CONFIGS)


class Twist:
    """The same torque at every freedom."""

    def __init__(self, torque):
        self.torque = torque

    def init(self, model, state):
        return ()

    def update(self, memory, model, state, seen, dt):
        torque = jnp.full(model.topology.nv, self.torque, model.mass.dtype)
        return memory, Control(torque=torque, damping=jnp.zeros_like(torque))


def motion_energy(sample):
    return kinetic_energy(sample.model, sample.seen.kin, sample.state.qd)


MEASURES = {
    "fastest": largest(lambda s: jnp.max(jnp.abs(s.state.qd))),
    "energy": final(motion_energy),
    "deepest": largest(lambda s: s.info.penetration),
    "depth": final(lambda s: s.info.penetration),
    "residual": largest(lambda s: s.info.residual),
}


@partial(quick_jit, static_argnames=("scheme", "steps", "backend"))
def together(model, state, torque, scheme, steps=STEPS, backend="xla"):
    """All members of a batch; each has its masses, state and torque."""

    def one(mass, inertia, state, torque):
        member = model.replace(mass=mass, inertia=inertia)
        return rollout(
            member, Twist(torque), state, CONFIGS[scheme], steps, MEASURES, backend=backend
        )

    return jax.vmap(one)(model.mass, model.inertia, state, torque)


def batch(model, q, qd=None, mass=None):
    """A model whose masses have a batch axis, and states (count, ...)."""
    zero = neutral_state(model, row_layout(model.topology).n_rows)
    q = jnp.asarray(q, float)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(q), *x.shape)), zero)
    states = states.replace(q=q, qd=states.qd if qd is None else jnp.asarray(qd, float))
    masses = jnp.broadcast_to(model.mass, (len(q), *model.mass.shape))
    if mass is not None:
        masses = jnp.asarray(mass, float)
    inertia = model.inertia * (masses / model.mass)[..., None, None]
    return model.replace(mass=masses, inertia=inertia), states


def run(model, state, scheme, torque=0.0, **options):
    torque = jnp.broadcast_to(jnp.asarray(torque, float), state.time.shape)
    return together(model, state, torque, scheme, **options)


@pytest.fixture(scope="module")
def crates(x64_module):
    """Two free crates over the ground."""
    b = ModelBuilder()
    for name in ("low", "high"):
        inertia = [2.0 / 3 * HALF**2] * 3
        b.add_link(name, "world", mass=1.0, inertia=inertia, joints=[free(name)])
        b.add_shape(name, box([HALF] * 3, name=name))
    b.add_shape("world", plane(name="ground"))
    b.add_pair("low", "high")
    return b.build()


@pytest.fixture(scope="module")
def chain(x64_module):
    """Light links and a heavy ball; the second link has no length, and two joints at one place."""
    b = ModelBuilder()
    rod = dict(mass=0.01, inertia=(1e-5, 1e-5, 1e-6))
    limits = (-1.5, 1.5)
    joints = [hinge("root", (0, 1, 0), limits=limits)]
    b.add_link("rod0", "world", pos=(0, 0, 0.4), com=(0, 0, -0.1), joints=joints, **rod)
    joint = hinge("joint1", (1, 0, 0), limits=limits)
    b.add_link("point", "rod0", pos=(0, 0, -0.2), joints=[joint], **rod)
    b.add_shape("point", capsule(0.02, 1e-9, name="point"))
    joint = hinge("joint2", (0, 1, 0), limits=limits)
    b.add_link("rod1", "point", com=(0, 0, -0.1), joints=[joint], **rod)
    joint = hinge("joint3", (0, 1, 0), limits=limits)
    ball = dict(mass=100.0, inertia=(0.4, 0.4, 0.4))
    b.add_link("ball", "rod1", pos=(0, 0, -0.2), joints=[joint], **ball)
    b.add_shape("ball", sphere(0.1, name="ball"))
    b.add_shape("world", plane(name="ground"))
    return b.build()


def stacked(*heights):
    """(14,) two crates above one another, by the gaps below them."""
    q, z = np.zeros(14), 0.0
    for k, gap in enumerate(heights):
        z += gap + HALF
        q[7 * k : 7 * k + 4] = 0, 0, z, 1
        z += HALF
    return q


@by_both
def test_mass_ratios_of_ten_thousand_are_bounded_and_told(crates, scheme):
    """Below, above, and both alike, dropped from 5 cm. What is not solved stands in the residual."""
    masses = [[0.01, 100.0], [100.0, 0.01], [1.0, 1.0]]
    result = run(*batch(crates, [stacked(0, 0.05)] * 3, mass=masses), scheme)
    m = jax.tree.map(np.asarray, result.measures)
    print(scheme, m)
    assert not failed_members(result)


@by_both
def test_a_heavy_ball_on_a_light_chain(chain, scheme):
    """It swings from the side, beyond the limits of its joints and into the ground."""
    q = [[1.4, 0, 0, 0], [0.1, 0.2, 0.3, 1.7], [0, 0, 0, 0]]
    result = run(*batch(chain, q), scheme)
    print(scheme, jax.tree.map(np.asarray, result.measures))
    assert not failed_members(result)


@by_both
def test_what_begins_deep_inside_comes_out_slowly(crates, scheme):
    """By 5, 10 and 19 cm of the crates' 20, into the ground and into one another."""
    q = [stacked(-d, 0.3) for d in (0.05, 0.1, 0.19)] + [stacked(0, -d) for d in (0.05, 0.1, 0.19)]
    result = run(*batch(crates, q), scheme)
    print(scheme, jax.tree.map(np.asarray, result.measures))
    assert not failed_members(result)


@by_both
def test_huge_velocities_are_bounded(crates, scheme):
    speeds = [1e3, 1e4, 1e6]
    down, spin = np.zeros((3, 12)), np.zeros((3, 12))
    down[:, 8], spin[:, 3:6] = -np.array(speeds), np.array(speeds)[:, None]
    qd = np.concatenate([down, spin])
    result = run(*batch(crates, [stacked(0.0, 0.5)] * 6, qd), scheme)
    print(scheme, jax.tree.map(np.asarray, result.measures))
    assert not failed_members(result)
