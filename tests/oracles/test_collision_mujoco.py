"""Every pair of shapes over random poses against MuJoCo: distances, normals, points.

Where the definitions differ, the reference is another one, and the difference is measured:

- A capsule's side against a box is compared with a bounded least-squares problem. MuJoCo's routine
  misses the nearest point of some poses.
- Boxes apart report their separation along an axis, not their distance: see box_box.py.
- Height fields: MuJoCo's is made of prisms, which have side walls at its border and a depth of
  their own when something has sunk in. Compared are poses above the surface and away from the
  border; a box, whose edges here meet the ridges that cross them, only where they are close.
- A tapered capsule does not exist in MuJoCo: see tests/collision/test_round_cones.py.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

from jaxsim.collision.contacts import find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.mjcf import mjcf_q_index, to_mjcf
from jaxsim.model import ModelBuilder, box, capsule, free, height_field, plane, sphere
from tests.compiling import quick_jit
from tests.oracles.mujoco_versions import mujoco_version

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is what contacts are compared with")
pytestmark = pytest.mark.usefixtures("x64_module")

POSES = 200
TURN = (0.8, 0.36, 0.0, 0.48)
MARGIN = 0.3  # how far MuJoCo looks [m]
LINKS = {
    "marble": sphere(0.15),
    "pea": sphere(0.08, pos=(0.1, 0, 0)),
    "rod": capsule(0.1, 0.3),
    "bar": capsule(0.06, 0.2, quat=TURN),
    "crate": box((0.1, 0.2, 0.15)),
    "chest": box((0.25, 0.1, 0.2)),
}
WORLD = {
    "slope": plane(pos=(0, 0, -0.1), quat=(np.cos(0.2), 0, np.sin(0.2), 0)),
    "block": box((0.5, 0.3, 0.2), quat=TURN),
    "knob": sphere(0.3, pos=(0.2, 0.1, 0)),
    "rail": capsule(0.1, 0.6, quat=TURN),
}
EXTENT = np.array([1.4, 1.0])
FIELD = (np.cos(0.1), np.sin(0.1), 0, 0)


def scene(world) -> ModelBuilder:
    b = ModelBuilder()
    for name, shape in LINKS.items():
        b.add_link(name, "world", mass=1.0, inertia=(0.1, 0.1, 0.1), joints=[free(name + "_free")])
        b.add_shape(name, replace(shape, name=name))
    for name, shape in world.items():
        b.add_shape("world", replace(shape, name=name))
    return b


def poses(rng, low, high) -> np.ndarray:
    q = rng.normal(size=(POSES, len(LINKS), 7))
    q[..., :3] = rng.uniform(low, high, size=q[..., :3].shape)
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    return q.reshape(POSES, -1)


def look(model, q):
    """Contacts of a batch, as NumPy arrays."""

    def one(q):
        kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv))
        return find_contacts(model, kin)

    contacts = jax.tree.map(np.asarray, quick_jit(jax.vmap(one))(q))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(contacts))
    np.testing.assert_allclose(np.linalg.norm(contacts.normal, axis=-1), 1, atol=1e-9)
    return contacts


@pytest.fixture(scope="module")
def solids(x64_module):
    """All pairs but those of height fields: by pair of kinds, our nearest slot and MuJoCo's."""
    b = scene(WORLD)
    b.add_self_collision()
    model = b.build()
    top, slots = model.topology, contact_slots(model.topology)
    q = poses(np.random.default_rng(0), -0.6, 0.6)
    contacts = look(model, q)
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model))
    data, index, ends = mujoco.MjData(mj), mjcf_q_index(top), np.zeros(6)
    geoms = [mj.geom(name).id for name in top.shape_names]
    found: dict = {}
    for k in range(POSES):
        data.qpos[index] = q[k]
        mujoco.mj_kinematics(mj, data)
        for a, b in top.shape_pairs:
            mine = np.flatnonzero((slots.shape_a == a) & (slots.shape_b == b))
            slot = mine[contacts.gap[k, mine].argmin()]
            gap = mujoco.mj_geomDistance(mj, data, geoms[a], geoms[b], 10.0, ends)
            along = (ends[:3] - ends[3:]) * np.sign(gap)
            row = [contacts.gap[k, slot], *contacts.normal[k, slot], *contacts.point[k, slot]]
            theirs = [gap, *along / np.linalg.norm(along), *(ends[:3] + ends[3:]) / 2]
            poses_of = (data.geom_xpos[g].copy() for g in (geoms[a], geoms[b]))
            turns = (data.geom_xmat[g].reshape(3, 3).copy() for g in (geoms[a], geoms[b]))
            sizes = (mj.geom_size[g] for g in (geoms[a], geoms[b]))
            kinds = tuple(top.shape_kinds[s] for s in (a, b))
            found.setdefault(kinds, []).append((row, theirs, (*poses_of, *turns, *sizes)))
    return found


def rows(found) -> tuple[np.ndarray, np.ndarray]:
    ours, theirs, _ = zip(*found, strict=True)
    return np.array(ours), np.array(theirs)


@pytest.mark.parametrize(
    "kinds",
    [
        ("sphere", "plane"),
        ("capsule", "plane"),
        ("box", "plane"),
        ("sphere", "box"),
        ("sphere", "sphere"),
        ("sphere", "capsule"),
        ("capsule", "sphere"),
        ("capsule", "capsule"),
    ],
    ids="-".join,
)
def test_distance_normal_and_point_are_those_of_mujoco(solids, kinds):
    """Apart and overlapping; the first shape of a pair with the world may be the link's."""
    ours, theirs = rows(solids[kinds])
    assert len(ours) >= POSES
    assert (theirs[:, 0] > 0).sum() > 20 and (theirs[:, 0] < 0).sum() > 20
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_capsule_at_a_box(solids):
    """Apart: the true distance, which MuJoCo finds in most poses. Its depth is another."""
    some = solids["capsule", "box"][::4]
    ours, theirs = rows(some)
    assert len(ours) >= 1.5 * POSES
    true = []
    for pos_a, pos_b, rot_a, rot_b, size_a, size_b in (x[2] for x in some):
        across = np.column_stack([rot_a[:, 2], -rot_b])
        bounds = np.r_[size_a[1], size_b]
        nearest = lsq_linear(across, pos_b - pos_a, (-bounds, bounds), tol=1e-15)
        true.append(np.sqrt(2 * nearest.cost) - size_a[0])
    true = np.array(true)
    # the segment is outside of the box; the ball of the side is found by bisection
    apart = true > -0.04
    assert apart.sum() > POSES and (true[apart] < 0).sum() > 20
    np.testing.assert_allclose(ours[apart, 0], true[apart], atol=1e-7)
    same = apart & (np.abs(theirs[:, 0] - true) < 1e-7)
    assert same.sum() > 0.9 * apart.sum()
    # where the nearest place is one point; a capsule that lies flat has a choice
    np.testing.assert_allclose(ours[same, 1:4], theirs[same, 1:4], atol=2e-3)
    assert np.quantile(np.abs(ours[same, 4:] - theirs[same, 4:]), 0.98) < 1e-3


def test_a_box_in_a_box(solids):
    """Overlapping: the depth along the best axis, which faces win by a small preference."""
    ours, theirs = rows(solids["box", "box"])
    deep = theirs[:, 0] < 0
    assert len(ours) >= 3 * POSES and deep.sum() > POSES
    np.testing.assert_allclose(ours[deep, 0], theirs[deep, 0], atol=1e-4)
    same = deep & (np.abs(ours[:, 0] - theirs[:, 0]) < 1e-9)
    assert same.sum() > 0.9 * deep.sum()
    np.testing.assert_allclose(ours[same, 1:4], theirs[same, 1:4], atol=1e-6)
    assert (ours[~deep, 0] <= theirs[~deep, 0] + 1e-3).all()  # a bound from below


@pytest.fixture(scope="module")
def ground(x64_module):
    """By link, the nearest contact with a rough field in each pose, ours and theirs."""
    if mujoco_version() < (4, 0):
        pytest.skip("MuJoCo 3.3 finds a fifth as many contacts with height fields as MuJoCo 4")
    rng = np.random.default_rng(1)
    heights = 0.12 * rng.normal(size=(8, 6))
    field = height_field(heights, EXTENT, pos=(0.1, 0, 0), quat=FIELD)
    model = scene({"ground": field}).build()
    top, slots = model.topology, contact_slots(model.topology)
    q = poses(rng, (-0.8, -0.5, -0.05), (1.0, 0.5, 0.6))
    contacts = look(model, q)
    mj = mujoco.MjModel.from_xml_string(to_mjcf(model))
    mj.geom_margin[:] = MARGIN
    data, index, ground_id = mujoco.MjData(mj), mjcf_q_index(top), mj.geom("ground").id
    found: dict = {name: [] for name in LINKS}
    for k in range(POSES):
        data.qpos[index] = q[k]
        mujoco.mj_fwdPosition(mj, data)
        for name in LINKS:
            geom = mj.geom(name).id
            theirs = [c for c in data.contact if {*c.geom} == {geom, ground_id}]
            if not theirs:
                continue
            deepest = min(theirs, key=lambda c: c.dist)
            sign = 1 if deepest.geom[0] == ground_id else -1
            mine = np.flatnonzero(slots.shape_a == top.shape(name))
            slot = mine[contacts.gap[k, mine].argmin()]
            row = [contacts.gap[k, slot], *contacts.normal[k, slot], *contacts.point[k, slot]]
            wanted = [deepest.dist, *sign * deepest.frame[:3], *deepest.pos]
            found[name].append((row, wanted, None))
    return found


@pytest.mark.parametrize("name, radius", [("marble", 0.15), ("pea", 0.08)])
def test_a_ball_on_a_height_field(ground, name, radius):
    ours, theirs = rows(ground[name])
    above = theirs[:, 0] > -0.9 * radius
    assert above.sum() > 60 and (theirs[above, 0] < 0).sum() > 15
    np.testing.assert_allclose(ours[above, 0], theirs[above, 0], atol=1e-6)
    # of two places as near, either may come first
    same = np.sum(ours[:, 1:4] * theirs[:, 1:4], axis=1) > 1 - 1e-6
    assert same[above].mean() > 0.95
    np.testing.assert_allclose(ours[above & same, 4:], theirs[above & same, 4:], atol=1e-3)


@pytest.mark.parametrize("name, radius", [("rod", 0.1), ("bar", 0.06)])
def test_a_capsule_on_a_height_field(ground, name, radius):
    """Nearest of ends and side; theirs may be a wall of the border, which ours does not have."""
    ours, theirs = rows(ground[name])
    above = theirs[:, 0] > -0.7 * radius
    assert above.sum() > 60 and (theirs[above, 0] < 0).sum() > 15
    wrong = np.abs(ours[above, 0] - theirs[above, 0])
    assert np.mean(wrong < 1e-5) > 0.95
    assert np.max(wrong) < 3e-3


@pytest.mark.parametrize("name", ["crate", "chest"])
def test_a_box_on_a_height_field(ground, name):
    """A box that has hardly sunk in is as deep as theirs."""
    ours, theirs = rows(ground[name])
    near = np.abs(theirs[:, 0]) < 0.04
    assert near.sum() > 15
    wrong = np.abs(ours[near, 0] - theirs[near, 0])
    assert np.median(wrong) < 1e-5
    assert np.quantile(wrong, 0.8) < 2e-3
