"""Planes of contacts over a step: no ghost beside what is passed, none missed of what is hit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision.ahead import contacts_ahead
from jaxsim.collision.contacts import find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics, point_velocity
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import ModelBuilder, box, capsule, free, sphere, tapered_capsule
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

DT = 1e-3
FLYING = {
    "ball": sphere(0.05),
    "rod": capsule(0.04, 0.1),
    "cone": tapered_capsule(0.06, 0.03, 0.1),
    "crate": box((0.05, 0.08, 0.1)),
}
PASSED = {"block": box((0.5, 0.4, 0.3)), "post": capsule(0.05, 0.2)}
MEMBERS = 40


def build():
    """What flies, and a block of the world and a post that moves; each meets both."""
    b = ModelBuilder((0, 0, 0))
    for name, shape in (*FLYING.items(), ("post", PASSED["post"])):
        b.add_link(name, "world", mass=1.0, inertia=(0.01,) * 3, joints=[free(name)])
        b.add_shape(name, replace(shape, name=name, group=0, mask=0))
    b.add_shape("world", replace(PASSED["block"], name="block", group=0, mask=0))
    for name in FLYING:
        for other in PASSED:
            b.add_pair(name, other)
    return b.build()


def lowest(shape, turn, normal) -> np.ndarray:
    """The point of a shape at the origin that is farthest against a normal."""
    if shape.kind == "box":
        return turn @ (-np.sign(turn.T @ normal) * np.array(shape.size))
    ends = [(turn[:, 0] * shape.size[2], shape.size[0])]
    ends.append((-turn[:, 0] * shape.size[2], shape.size[1] or shape.size[0]))
    return min((end - radius * normal for end, radius in ends), key=lambda p: p @ normal)


def unit(rng, size: int) -> np.ndarray:
    x = rng.normal(size=size)
    return x / np.linalg.norm(x)


def passing(model, seed: int, clear: float, other: str):
    """q, qd of straight flights that come as near as ``clear`` to the block, at its edges and
    corners, or to the post, which moves against them; at 5 to 200 m/s, within the next step."""
    rng, top = np.random.default_rng(seed), model.topology
    q, qd = np.zeros(top.nq), np.zeros(top.nv)
    q[3::7] = 1
    q[0::7] = 100 * (1 + np.arange(len(q[0::7])))  # what is not looked at is far away
    post_quat = unit(rng, 4)
    turn = np.eye(3) if other == "block" else rotation_matrix(post_quat)
    speed = rng.choice([5, 20, 50, 100, 200])
    name = rng.choice(list(FLYING))
    normal = unit(rng, 3)
    if other == "block" and rng.random() < 0.5:
        normal[rng.integers(3)] = 0
        normal /= np.linalg.norm(normal)
    middle = np.zeros(3) if other == "block" else np.array([0.0, 50.0, 0.0])
    touches = middle + lowest(PASSED[other], turn, -normal)
    quat = unit(rng, 4)
    body = rotation_matrix(quat)
    across = np.cross(normal, unit(rng, 3))
    way = speed * across / np.linalg.norm(across)
    ahead = rng.uniform(0.1, 0.9) * DT
    place = touches + clear * normal - lowest(FLYING[name], body, normal)
    share = 1.0 if other == "block" else rng.uniform(0.3, 0.9)
    k, v = top.q_start[top.joint(name)], top.v_start[top.joint(name)]
    q[k : k + 3], q[k + 3 : k + 7] = place - ahead * share * way, quat
    qd[v : v + 3] = share * way
    if other == "post":
        k, v = top.q_start[top.joint(other)], top.v_start[top.joint(other)]
        q[k : k + 3], q[k + 3 : k + 7] = middle + ahead * (1 - share) * way, post_quat
        qd[v : v + 3] = -(1 - share) * way
    return q, qd


@pytest.fixture(scope="module")
def model(x64_module):
    return build()


@pytest.fixture(scope="module")
def left(model):
    """(members,) of q, qd: the least that is left of a gap after a step, and the least gap now."""
    slots = contact_slots(model.topology)

    def one(q, qd):
        kin = forward_kinematics(model, q, qd)
        now = find_contacts(model, kin)
        contacts = contacts_ahead(model, kin, now, DT)
        rate = jnp.zeros_like(contacts.gap)
        for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
            moved = point_velocity(kin, np.maximum(link, 0), contacts.point)
            along = jnp.sum(moved * contacts.normal, axis=-1)
            rate = rate + sign * jnp.where(link >= 0, along, 0)
        return (contacts.gap + DT * rate).min(), now.gap.min()

    return quick_jit(jax.vmap(one))


@pytest.mark.parametrize("other", PASSED)
def test_what_is_passed_bounds_nothing(model, left, other):
    starts = [
        passing(model, 100 * seed + 7, clear, other)
        for clear in (0.001, 0.005, 0.02)
        for seed in range(MEMBERS)
    ]
    rest, _ = left(*map(np.array, zip(*starts)))
    assert rest.min() > -1e-5


@pytest.mark.parametrize("other", PASSED)
def test_what_is_hit_has_a_plane_in_the_way(model, left, other):
    starts = [passing(model, 100 * seed + 8, -0.002, other) for seed in range(3 * MEMBERS)]
    rest, now = map(np.asarray, left(*map(np.array, zip(*starts))))
    assert (now > 0).sum() > MEMBERS
    assert (rest[now > 0] < 0).all()


def test_derivative_of_a_plane_is_that_of_its_gap():
    """Of a ball that flies past the edge of a block and comes down on it."""
    b = ModelBuilder((0, 0, 0))
    b.add_link("ball", "world", mass=1.0, inertia=(0.01,) * 3, joints=[free("ball")])
    b.add_shape("ball", FLYING["ball"])
    b.add_shape("world", PASSED["block"])
    model = b.build()

    def gap(x, u):
        q, qd = jnp.zeros(7).at[:3].set(x).at[3].set(1), jnp.zeros(6).at[:3].set(u)
        kin = forward_kinematics(model, q, qd)
        return contacts_ahead(model, kin, find_contacts(model, kin), DT).gap[0]

    place, way = np.array([-0.53, 0.05, 0.36]), np.array([80.0, 3.0, -20.0])
    height, slopes = quick_jit(jax.value_and_grad(gap, (0, 1)))(place, way)
    assert abs(height - (0.36 - 0.05 - 0.3)) < 1e-6  # over the face, not to the edge
    np.testing.assert_allclose(slopes[0], [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(slopes[1], 0, atol=1e-6)
