"""Bodies of other sizes from one model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters import human
from jaxsim.characters.anthropometry import Segment, segments
from jaxsim.characters.human import articulated_human
from jaxsim.characters.scaling import scaled
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.model import ModelBuilder, ModelError, ball, box, capsule, hinge, plane, slide, sphere
from jaxsim.model.state import neutral_q
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

TURNED = (np.cos(0.3), 0.0, np.sin(0.3), 0.0)


@pytest.fixture(scope="module")
def model(x64_module):
    return articulated_human()


@pytest.fixture(scope="module")
def chain(x64_module):
    """Three links with every kind of joint and shape, offsets and anchors."""
    b = ModelBuilder()
    rod = dict(com=(0.1, 0.2, -0.3), inertia=np.diag([0.05, 0.04, 0.03]))
    b.add_link("base", "world", pos=(0, 0, 1), mass=2.0, joints=[slide("rail", (1, 0, 0))], **rod)
    joints = [hinge("a", (0, 1, 0), anchor=(0.1, 0, 0.05)), hinge("b", (1, 0, 0), kp=1.0, kd=0.1)]
    b.add_link("leftArm", "base", pos=(0.2, 0.3, 0.1), mass=1.5, joints=joints, **rod)
    b.add_link("ball", "leftArm", pos=(0.1, 0, -0.4), mass=1.0, joints=[ball("c")], **rod)
    b.add_shape("base", box((0.1, 0.2, 0.3), pos=(0.1, 0, 0), name="box"))
    b.add_shape("leftArm", capsule(0.05, 0.2, pos=(0, 0.1, 0), name="capsule"))
    b.add_shape("ball", sphere(0.1, name="sphere"))
    b.add_shape("world", plane(name="ground"))
    b.add_grip("hold", "ball", (0.1, 0.0, 0.2), "leftArm", (0.3, 0.1, 0.0))
    b.add_grip("bar", "leftArm", (0.1, 0.2, 0.3), other_point=(1.0, 2.0, 3.0))
    return b.build()


def same(got, wanted, rtol=1e-12) -> None:
    """All arrays of two models agree."""
    for name in wanted.__dataclass_fields__:
        if name not in ("topology", "drive"):
            a, b = np.asarray(getattr(got, name)), np.asarray(getattr(wanted, name))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12, err_msg=name)


def test_one_is_the_identity(model, chain):
    same(quick_jit(scaled)(chain), chain)
    strong = quick_jit(lambda m: scaled(m, 1.0, 1.0, strength=1.0))(model)
    same(strong, model)
    assert strong.topology == model.topology


def test_mass_matrix_of_a_uniformly_scaled_body(model):
    """M goes with s^3 for translations, s^4 between both kinds, s^5 for rotations."""
    s, top = 1.3, model.topology
    rng = np.random.default_rng(0)
    move = rng.normal(size=top.nv)

    def one(s):
        new = scaled(model, s, s**3)
        q = integrate(new, jnp.asarray(neutral_q(new)), jnp.asarray(move), 1.0)
        return mass_matrix(new, forward_kinematics(new, q, jnp.zeros(top.nv)))

    M = quick_jit(jax.vmap(one))(jnp.array([1.0, s]))
    power = np.where(np.arange(top.nv) < 3, 1.5, 2.5)
    np.testing.assert_allclose(M[1], M[0] * s ** (power[:, None] + power), rtol=1e-10, atol=1e-10)


def test_equals_a_model_from_scaled_tables(model, monkeypatch):
    """A body of another size, with its gains; then one with other thighs and hands."""
    s = 0.8
    small = articulated_human(stature=1.75 * s, mass=72 * s**3)
    same(quick_jit(scaled)(model, s, s**3, strength=s**4), small)

    def other(build, stature, mass):
        bodies = segments(build, stature, mass)
        for name in ("thigh", "hand"):
            part = bodies[name]
            bodies[name] = Segment(
                1.2 * part.length, 1.2**3 * part.mass, 1.2 * part.com, 1.2**5 * part.inertia
            )
        return bodies

    monkeypatch.setattr(human, "segments", other)
    longer = {"thigh": 1.2, "leftHand": 1.2, "rightHand": (1.2, 1.2, 1.2)}
    heavier = {name: 1.2**3 for name in longer}
    same(quick_jit(scaled)(model, longer, heavier), articulated_human())


def test_stretches_along_one_axis(chain):
    """Joints, masses and shapes move with their link; inertia is that of the stretched points."""
    top = chain.topology
    size, mass = (1.5, 0.8, 2.0), 3.0
    stretch = quick_jit(scaled)
    new = stretch(chain, {"arm": size}, {"leftArm": mass})
    d = np.diag(size)
    arm = top.link("leftArm")
    np.testing.assert_allclose(new.com[arm], d @ chain.com[arm])
    np.testing.assert_allclose(new.mass[arm], mass * chain.mass[arm])
    rng = np.random.default_rng(1)
    points = rng.normal(size=(3, 6))
    points -= points.mean(axis=1, keepdims=True)

    def cloud(points, total):
        second = total / 6 * points @ points.T
        return np.trace(second) * np.eye(3) - second

    given = chain.replace(inertia=chain.inertia.at[arm].set(cloud(points, 1.5)))
    stretched = stretch(given, {"arm": size}, {"leftArm": mass})
    np.testing.assert_allclose(stretched.inertia[arm], cloud(d @ points, 1.5 * mass), rtol=1e-12)
    # the next joint hangs on the stretched link; its own on one that stays
    joint = top.joint("c")
    np.testing.assert_allclose(new.joint_pos[joint], d @ chain.joint_pos[joint])
    joint = top.joint("a")
    np.testing.assert_allclose(new.joint_pos[joint], chain.joint_pos[joint])
    np.testing.assert_allclose(new.joint_anchor[joint], d @ chain.joint_anchor[joint])
    np.testing.assert_allclose(new.grip_point, [[0.1, 0, 0.2], d @ [0.1, 0.2, 0.3]])
    np.testing.assert_allclose(new.grip_other_point, [d @ [0.3, 0.1, 0], [1, 2, 3]])
    shape = top.shape("capsule")
    wanted = [0.05 * np.sqrt(1.6), 0.05 * np.sqrt(1.6), 0.3]
    np.testing.assert_allclose(new.shape_size[shape], wanted)
    np.testing.assert_allclose(new.shape_pos[shape], [0, 0.08, 0])
    for name in ("box", "sphere", "ground"):
        shape = top.shape(name)
        np.testing.assert_array_equal(new.shape_size[shape], chain.shape_size[shape])
    all_new = stretch(chain, np.array([size, size, size]))
    np.testing.assert_allclose(all_new.shape_size[top.shape("box")], [0.15, 0.16, 0.6])
    cube = np.cbrt(1.5 * 0.8 * 2.0)
    np.testing.assert_allclose(all_new.shape_size[top.shape("sphere"), 0], 0.1 * cube)


def test_strength_keeps_the_damping_ratio(model):
    new = quick_jit(scaled)(
        model, {"thigh": (1.0, 1.0, 1.1)}, {"head": 2.0}, strength={"head": 1.5}
    )
    top = model.topology
    hip, neck = top.dof("leftHipFlexion"), top.dof("neckFlexion")
    elbow = top.dof("leftElbowFlexion")

    def ratio(m):
        kin = forward_kinematics(m, jnp.asarray(neutral_q(m)), jnp.zeros(top.nv))
        return m.gain_d / jnp.sqrt(m.gain_p * jnp.diagonal(mass_matrix(m, kin)))

    before, after = quick_jit(ratio)(model), quick_jit(ratio)(new)
    for dof, factor in ((hip, 1.0), (neck, 1.5), (elbow, 1.0)):
        np.testing.assert_allclose(after[dof], before[dof], rtol=1e-12)
        np.testing.assert_allclose(new.gain_p[dof], factor * model.gain_p[dof])
        np.testing.assert_allclose(new.torque_limit[dof], factor * model.torque_limit[dof])
    np.testing.assert_array_equal(new.gain_d[elbow], model.gain_d[elbow])
    assert new.gain_d[hip] > model.gain_d[hip]


def test_a_batch_holds_many_bodies_and_differentiates(chain):
    """Under jit and vmap; the gradient of a mass matrix entry against central differences."""
    sizes = jnp.asarray(np.random.default_rng(2).uniform(0.7, 1.4, (5, 3, 3)))
    masses = jnp.linspace(0.5, 2.0, 15).reshape(5, 3)
    many = quick_jit(jax.vmap(scaled, (None, 0, 0)))(chain, sizes, masses)
    one = jax.tree.map(lambda x: np.asarray(x)[3], many)
    same(one, quick_jit(scaled)(chain, sizes[3], masses[3]))
    assert many.mass.shape == (5, 3) and many.shape_size.shape == (5, 4, 3)

    def entry(size):
        new = scaled(chain, {"leftArm": jnp.stack([size, 1.0, size**2])}, strength=size)
        q = jnp.asarray(neutral_q(new))
        M = mass_matrix(new, forward_kinematics(new, q, jnp.zeros(new.topology.nv)))
        return M[1, 1] + new.shape_size.sum() + new.gain_d.sum()

    slope, up, down = quick_jit(lambda x: (jax.grad(entry)(x), entry(x + 1e-5), entry(x - 1e-5)))(
        1.2
    )
    np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-8)


def test_mistakes_are_named(chain):
    with pytest.raises(ModelError, match=r"sizes: no link named 'leg'.*base, arm, ball"):
        scaled(chain, {"leg": 1.0})
    with pytest.raises(ModelError, match=r"sizes has shape \(2,\)"):
        scaled(chain, np.ones(2))
    with pytest.raises(ModelError, match=r"masses\['arm'\] has shape \(3,\)"):
        scaled(chain, masses={"arm": (1, 1, 1)})
