"""Kinds of shapes: their records agree with one another, and a new kind needs its record alone."""

import ast
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.collision import families
from jaxsim.collision.contacts import find_contacts, lowest_point
from jaxsim.collision.families import Family, Scene
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.effectors import effectors
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.mjcf import to_mjcf
from jaxsim.io.model_file import load_model
from jaxsim.io.motion import MotionShape
from jaxsim.io.toml_table import WorldError
from jaxsim.io.world_file import read_world
from jaxsim.io.world_model import build_world
from jaxsim.math.safe import safe_norm
from jaxsim.model import ModelBuilder, ModelError, Shape, free, kinds, neutral_state, plane
from jaxsim.model.kinds import KINDS, Geom, ShapeKind
from jaxsim.options import REQUIRED, option
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.records import no_control
from jaxsim.simulation.step import TimeStepping, step
from jaxsim.simulation.warm_start import with_warm_start
from jaxsim.viewer import read_page, write_page
from jaxsim.viewer.outlines import faces, outline
from jaxsim.viewer.views import view_from
from optimize.running.recording import shapes_of
from tests.compiling import quick_jit
from tests.viewer.conftest import make_falling

AXES = (0.3, 0.2, 0.1)
SCENE = """
[world]
title = "An egg"
seconds = 1

[[fixed]]
shape = "plane"

[[body]]
name = "egg"
shape = "ellipsoid"
half_axes = [0.3, 0.2, 0.1]
mass = 2
pos = [0, 0, 0.5]
"""


@dataclass(frozen=True)
class EllipsoidKeys:
    """Keys in a scenario file."""

    half_axes: tuple[float, ...] = option(
        REQUIRED, "of an ellipsoid", unit="m", kind=tuple, above=0.0
    )


class Ellipsoid(ShapeKind):
    """Ellipsoid of half axes along x, y and z."""

    name = "ellipsoid"
    numbers = (("half_x", 0), ("half_y", 1), ("half_z", 2))
    thin_sizes, geom_type, keys = 3, "ellipsoid", EllipsoidKeys

    def size(self, half_axes: Sequence[float]) -> tuple[float, float, float]:
        x, y, z = map(float, half_axes)
        return x, y, z

    def solid(self, size: Any, mass: float):
        x, y, z = np.square(size)
        return (0.0, 0.0, 0.0), mass / 5 * np.array([y + z, x + z, x + y])

    def support(self, size: Any, direction: Any) -> Any:
        return (direction**2 @ size**2) ** 0.5

    def corners(self, size: Any) -> np.ndarray:
        points = np.random.default_rng(0).normal(size=(4000, 3))
        return points / np.linalg.norm(points, axis=1, keepdims=True) * size

    def geoms(self, name: str, size: np.ndarray, heights: np.ndarray, ends: Sequence[int]):
        return [Geom(name, {"type": "ellipsoid", "size": size})]

    def size_of_geom(self, size: np.ndarray) -> tuple[float, float, float]:
        return self.size(size.tolist())


def on_plane(scene: Scene, rows: np.ndarray):
    """Lowest point of an ellipsoid over a plane."""

    def one(pos, rot, size, ground, frame):
        normal = frame[:, 2]
        local = rot.T @ normal
        touch = pos - rot @ (size**2 * local / safe_norm(size * local))
        gap = (touch - ground) @ normal
        return touch - gap / 2 * normal, normal, gap

    s, b = rows.T
    return jax.vmap(one)(scene.pos[s], scene.rot[s], scene.size[s], scene.pos[b], scene.rot[b])


@pytest.fixture
def ellipsoid(monkeypatch) -> ShapeKind:
    """The kind with its record, and its contact with planes."""
    kind = Ellipsoid()
    monkeypatch.setitem(KINDS, kind.name, kind)
    contact = Family("ellipsoid_plane", 2, 1, families.pair_of(kind.name, "plane"), on_plane)
    monkeypatch.setattr(families, "FAMILIES", [*families.FAMILIES, contact])
    for module in ("contacts", "slots", "ahead"):
        monkeypatch.setattr(f"jaxsim.collision.{module}.FAMILIES", families.FAMILIES)
    yield kind
    contact_slots.cache_clear()


def egg(**options):
    """The model of an ellipsoid over a plane."""
    b = ModelBuilder()
    shape = Shape("ellipsoid", AXES, name="egg", **options)
    com, inertia = shape.solid(2.0)
    b.add_link("egg", "world", mass=2.0, com=com, inertia=inertia, joints=[free("float")])
    b.add_shape("egg", shape)
    b.add_shape("world", plane(name="floor"))
    return b.build()


def test_the_kinds_are_listed_from_balls_to_ground():
    assert list(KINDS) == ["sphere", "capsule", "tapered_capsule", "box", "plane", "height_field"]


def test_a_module_of_the_package_is_a_kind(monkeypatch, tmp_path):
    text = "from tests.model.test_kinds import Ellipsoid\nKIND = Ellipsoid()\n"
    (tmp_path / "ellipsoid.py").write_text(text)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    names = [kind.name for kind in kinds._records()]
    assert names == [*list(KINDS)[:2], "ellipsoid", *list(KINDS)[2:]]


def test_no_other_module_names_a_kind():
    """Tapered capsules and height fields are no special case of any module but theirs."""
    root = Path(kinds.__file__).parents[2]
    named = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in ("tapered_capsule", "height_field")
    }
    of_kinds = {f"model/kinds/{name}.py" for name in ("tapered_capsule", "height_field")}
    public = {"model/__init__.py", "model/shapes.py"}
    assert named == {*of_kinds, *public, "collision/families.py"}


@pytest.mark.parametrize("name", ["sphere", "capsule", "tapered_capsule", "box"])
def test_a_record_agrees_with_itself(name):
    """Balls, corners and faces within the bound; the lowest place is on the surface."""
    kind, size = KINDS[name], (0.2, 0.1, 0.4)
    size = {"sphere": (0.2, 0, 0), "capsule": (0.2, 0.2, 0.4)}.get(name, size)
    np.testing.assert_allclose(kind.unpack(kind.pack(size)), size)
    far = [np.linalg.norm(centre) + radius for centre, radius in kind.balls(size)]
    far += np.linalg.norm(kind.corners(size), axis=1).tolist()
    assert kind.bound(size) == pytest.approx(max(far))
    down = np.array([0.6, 0.0, -0.8])
    places = np.array(kind.lowest(size, down)) * np.array(kind.half(size))
    lowest = places[np.isclose(places @ down, (places @ down).max())]
    np.testing.assert_allclose(kind.depth(np.array(size), lowest), 0, atol=1e-12)
    for points, normal in kind.faces(size, np.zeros(3), np.eye(3)):
        np.testing.assert_allclose(points @ normal, np.abs(normal) @ size)


def test_a_new_kind_is_built(ellipsoid):
    model = egg()
    top = model.topology
    assert top.shape_kinds == ("ellipsoid", "plane") and not top.planar
    assert contact_slots(top).count == 1
    assert ellipsoid.bound(AXES) == pytest.approx(0.3, rel=1e-3)
    depths = ellipsoid.depth(np.array(AXES), np.array([[0.0, 0, 0], [0, 0, 0.09], [0.5, 0, 0]]))
    np.testing.assert_allclose(depths, [0.1, 0.01, -0.2], atol=2e-3)
    kin = forward_kinematics(model, neutral_state(model).q, jnp.zeros(6))
    assert float(lowest_point(model, kin)) == pytest.approx(-0.1)
    tip = effectors(model, [("tip", "tip", "egg", (0.0, 0.0, -1.0))])
    np.testing.assert_allclose(tip.point, [[0, 0, -0.1]], atol=1e-7)
    with pytest.raises(ModelError, match=r"sizes .* must be positive"):
        ModelBuilder().add_shape("world", Shape("ellipsoid", (0.1, 0.0, 0.1)))


def test_a_new_kind_is_drawn(ellipsoid):
    model = egg(quat=(np.sqrt(0.5), 0, np.sqrt(0.5), 0))  # its x axis is downwards
    drawn, _ = shapes_of(model)
    assert drawn == MotionShape("ellipsoid", 0, quat=drawn.quat, size=drawn.size)
    axes = np.array([[0.0, 0, -1], [0, 1, 0], [1, 0, 0]])
    line = outline(drawn, np.array([5.0, 0, 1]), axes, view_from("side"))
    np.testing.assert_allclose(line.max(axis=0), [5.1, 1.3], atol=2e-3)
    np.testing.assert_allclose(line.min(axis=0), [4.9, 0.7], atol=2e-3)
    assert faces(drawn, np.zeros(3), axes, view_from("corner")) == []


def test_a_new_kind_is_read_from_a_scenario(ellipsoid, tmp_path):
    (tmp_path / "egg.toml").write_text(SCENE)
    model = build_world(read_world(tmp_path / "egg.toml")).model
    np.testing.assert_allclose(model.shape_size[model.topology.shape("egg")], AXES, rtol=1e-6)
    moments = np.diag(np.asarray(model.inertia[0]))
    np.testing.assert_allclose(moments, 2 / 5 * np.array([0.05, 0.1, 0.13]), rtol=1e-6)
    (tmp_path / "egg.toml").write_text(SCENE.replace("0.2, 0.1]", "0.2, -0.1]"))
    with pytest.raises(WorldError, match=r"half_axes.*give 3 numbers in brackets, each above 0"):
        read_world(tmp_path / "egg.toml")


def test_a_new_kind_goes_to_mujoco_and_back(ellipsoid, tmp_path):
    pytest.importorskip("mujoco", reason="MuJoCo reads what is exported")
    text = to_mjcf(egg())
    assert 'type="ellipsoid"' in text
    (tmp_path / "egg.xml").write_text(text)
    back = load_model(tmp_path / "egg.xml").model
    shape = back.topology.shape("egg")
    assert back.topology.shape_kinds[shape] == "ellipsoid"
    np.testing.assert_allclose(back.shape_size[shape], AXES, rtol=1e-6)


def test_a_new_kind_is_in_the_data_of_the_page(ellipsoid, tmp_path):
    shapes = MotionShape("ellipsoid", 0, size=AXES), MotionShape("plane", -1)
    motion = dataclasses.replace(make_falling(20), shapes=shapes)
    write_page(tmp_path / "egg.html", motion)
    first, _ = read_page(tmp_path / "egg.html")["shapes"]
    assert (first["kind"], first["size"]) == ("ellipsoid", list(AXES))


def test_a_new_kind_comes_to_rest_on_the_ground(ellipsoid):
    model = egg(friction=0.5)
    config = TimeStepping(dt=0.001)
    state = neutral_state(model)
    state = state.replace(q=state.q.at[2].set(0.11))
    state = with_warm_start(model, state)

    def advance(_, state):
        return step(model, state, observe(model, state, config), no_control(model), config)[0]

    after = quick_jit(lambda state: jax.lax.fori_loop(0, 400, advance, state))(state)
    assert float(after.q[2]) == pytest.approx(0.1, abs=2e-3)
    assert float(jnp.abs(after.qd).max()) < 1e-2
    kin = forward_kinematics(model, after.q, after.qd)
    assert abs(float(find_contacts(model, kin).gap[0])) < 2e-3
