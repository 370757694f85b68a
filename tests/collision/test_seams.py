"""Flush surfaces have no seams; what is not flush, or is not touched, keeps its edges."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.ahead import contacts_ahead
from jaxsim.collision.contacts import find_contacts
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import ModelBuilder, box, capsule, free, plane, sphere
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit
from tests.laws.bodies import G, Limp, begin

pytestmark = pytest.mark.usefixtures("x64_module")

SPEEDS = np.array([0.1, 0.5, 2.0, 8.0])
STEPS, DT = 100, 1e-3
SLIDING = {  # shape, height of its middle, how far it reaches ahead, yaw of the floor
    "crate": (box((0.08, 0.06, 0.08)), 0.08, 0.08, 0.3),
    "ball": (sphere(0.05), 0.05, 0.0, -0.7),
    "rod": (capsule(0.05, 0.1), 0.05, 0.1, 0.0),
}


def add_floor(b: ModelBuilder, name: str, kind: str, place, yaw: float, bit: int) -> None:
    """Flush along a line through the place, at right angles to the yaw, top at height 0."""
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    common = dict(quat=(np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)), group=bit, mask=bit)

    def tile(k: int, x, y, hx, hy, hz=0.05):
        at = [*(turn @ (x, y) + place), -hz]
        b.add_shape("world", box((hx, hy, hz), name=f"{name} {k}", pos=at, **common))

    if kind == "plane":
        b.add_shape("world", plane(name=f"{name} p", pos=(*place, 0), group=bit, mask=bit))
        tile(0, 0.2, 0, 0.2, 0.5)
        return
    tile(0, -1, 0, 1, 1)
    if kind == "two":
        tile(1, 2, 0, 2, 1.5, 0.2)
    else:  # bricks, their joint under the middle of what slides
        tile(1, 1, 0.5, 1, 0.5)
        tile(2, 1, -0.5, 1, 0.5)


@pytest.fixture(scope="module")
def slid(x64_module):
    """Of every body and floor: speeds after STEPS and heights, (members, bodies) and so on, of
    frictions 0 and 0.3 times the speeds."""
    b, lanes = ModelBuilder(), []
    for kind, name in (("bricks", "crate"), ("two", "ball"), ("plane", "rod")):
        shape, height, reach, yaw = SLIDING[name]
        bit, place = 1 << (len(lanes) + 1), np.array([0.0, 10.0 * len(lanes)])
        lane = f"{name} on {kind}"
        b.add_link(lane, "world", mass=1.0, inertia=(0.004,) * 3, joints=[free(lane)])
        b.add_shape(lane, replace(shape, name=lane, group=bit, mask=bit))
        add_floor(b, lane, kind, place, yaw, bit)
        lanes.append((place, height, reach, yaw))
    model = b.build()
    q, qd = np.zeros((len(SPEEDS), len(lanes), 7)), np.zeros((len(SPEEDS), len(lanes), 6))
    for k, (place, height, reach, yaw) in enumerate(lanes):
        along = np.array([np.cos(yaw), np.sin(yaw)])
        back = reach + 0.5 * STEPS * DT * SPEEDS  # its front comes to the seam half way
        q[:, k, :2] = place - back[:, None] * along
        q[:, k, 2], q[:, k, 3], q[:, k, 6] = height, np.cos(yaw / 2), np.sin(yaw / 2)
        qd[:, k, :2] = SPEEDS[:, None] * along

    def one(mu, q, qd):
        slides = model.replace(friction=jnp.full_like(model.friction, mu))

        def record(sample):
            return sample.state.q[2::7]

        config = TimeStepping(dt=DT)
        done = rollout(slides, Limp(), begin(model, q, qd), config, STEPS, record=record)
        return jnp.linalg.norm(done.state.qd.reshape(-1, 6)[:, :3], axis=-1), done.record

    each = jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))
    speed, height = quick_jit(each)(np.array([0.0, 0.3]), q, qd)
    rise = np.asarray(height) - np.array([lane[1] for lane in lanes])
    return np.asarray(speed), rise, [name.split()[0] for name in model.topology.link_names]


def test_what_slides_over_a_seam_keeps_its_speed(slid):
    speed, rise, _ = slid
    np.testing.assert_allclose(speed[0] / SPEEDS[:, None], 1, atol=5e-3)
    assert rise[0].max() < 1e-4 and rise[0].min() > -5e-4


def test_friction_brakes_on_a_seam_as_beside_it(slid):
    speed, rise, names = slid
    crates = np.array(names) == "crate"
    slowed = np.maximum(SPEEDS - 0.3 * G * STEPS * DT, 0)
    np.testing.assert_allclose(speed[1][:, crates] - slowed[:, None], 0, atol=0.02)
    assert np.abs(rise[1]).max() < 5e-4


@pytest.fixture(scope="module")
def planes(x64_module):
    """Function of a model and a pose: normals and gaps of what a step solves for."""

    def of(model, pos):
        def one(pos):
            q = jnp.zeros(7).at[:3].set(pos).at[3].set(1)
            kin = forward_kinematics(model, q, jnp.zeros(6))
            contacts = contacts_ahead(model, kin, find_contacts(model, kin), DT)
            return contacts.normal, contacts.gap

        return jax.tree.map(np.asarray, quick_jit(jax.vmap(one))(jnp.asarray(pos)))

    return of


def one_body(shape, *world):
    b = ModelBuilder()
    b.add_link("body", "world", mass=1.0, inertia=(0.01,) * 3, joints=[free("body")])
    b.add_shape("body", replace(shape, name="body"))
    for k, other in enumerate(world):
        b.add_shape("world", replace(other, name=f"world {k}"))
    return b.build()


LEFT, RIGHT = box((1, 1, 0.1), pos=(-1, 0, -0.1)), box((1, 1, 0.1), pos=(1, 0, -0.1))


@pytest.mark.parametrize("crack", [0.0, 2e-5], ids=["closed", "a crack"])
def test_a_ball_over_a_seam_always_has_a_contact_upwards_alone(planes, crack):
    model = one_body(sphere(0.05), LEFT, replace(RIGHT, pos=(1 + crack, 0, -0.1)))
    x = np.array([-0.03, -1e-3, -1e-6, 0, 0.5 * crack, 1e-6, 1e-3, 0.03])
    normal, gap = planes(model, np.stack([x, 0 * x, 0 * x + 0.0499], -1))
    assert (gap.min(axis=1) < -5e-5).all()
    np.testing.assert_allclose(normal[gap < 1], [[0, 0, 1]] * int((gap < 1).sum()), atol=1e-9)


@pytest.mark.parametrize(
    ("second", "edge"),
    [
        (replace(RIGHT, pos=(1, 0, -0.11)), True),  # a step of a centimetre down
        (replace(RIGHT, pos=(1.05, 0, -0.1)), True),  # a gap
        (replace(RIGHT, group=2, mask=2), True),  # nothing that the ball could rest on
        (RIGHT, False),
    ],
    ids=["step", "gap", "untouched", "flush"],
)
def test_only_an_edge_that_a_flush_neighbour_goes_on_from_is_none(planes, second, edge):
    """A ball beside the end of the first box, lower than its top."""
    model = one_body(sphere(0.05), LEFT, second)
    normal, gap = planes(model, [[0.03, 0, 0.035]])
    tilted = (gap[0] < 1) & (np.abs(normal[0, :, 0]) > 0.1) & (normal[0, :, 0] > 0)
    assert tilted.any() == edge


def test_a_wall_on_a_floor_is_touched_down_to_its_foot(planes):
    """The floor goes on under the wall, but not in one plane with its side."""
    wall = box((0.1, 1, 0.5), pos=(0.1, 0, 0.5))
    model = one_body(box((0.1, 0.1, 0.1)), LEFT, RIGHT, wall)
    normal, gap = planes(model, [[-0.0999, 0, 0.0999]])
    pushed = (gap[0] < 0) & (normal[0, :, 0] < -0.9)
    assert pushed.sum() == 4


def test_neighbours_of_a_moving_body_are_flush_too(planes):
    """A ball of the world, and a platform of two boxes under it."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=1.0, inertia=(0.1,) * 3, joints=[free("body")])
    b.add_shape("body", replace(LEFT, name="left"))
    b.add_shape("body", replace(RIGHT, name="right"))
    b.add_shape("world", sphere(0.05, name="ball", pos=(0.0, 0, 0.03)))
    normal, gap = planes(b.build(), [[0.02, 0, 0], [-0.02, 0, 0], [0, 0, 0]])
    assert (gap.min(axis=1) < -0.015).all()
    np.testing.assert_allclose(np.abs(normal[gap < 1][:, 2]), 1, atol=1e-9)
