"""A body's sizes as numbers of a scenario: the body built that size, by all that varies numbers."""

import dataclasses
import json
import webbrowser
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jaxsim.characters.scaling import scaled
from jaxsim.characters.standing import START_DEPTH
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.mjcf import mjcf_q_index, to_mjcf
from jaxsim.model import ModelError
from jaxsim.simulation.measures import final
from jaxsim.simulation.rollout import rollout
from jaxsim.tree_paths import leaves_by_path, write
from optimize import Edge, Problem, Uniform, member, scenario, sobol_indices, sweep
from optimize.cli.main import main
from optimize.running.objectives import Objective, Term
from optimize.scenarios.seated import as_seated
from tests.compiling import quick_jit

POGO = """
<mujoco><worldbody>
 <geom name="ground" type="plane" size="5 5 0.1"/>
 <body name="trunk" pos="0 0 1.0"><joint name="x" type="slide" axis="1 0 0"/>
  <joint name="z" type="slide" axis="0 0 1"/>
  <geom name="trunk" type="capsule" fromto="0 0 0 0 0 0.4" size="0.1" mass="20" contype="0"/>
  <body name="left_shin" pos="0 0.2 0">
   <joint name="left_knee" axis="0 1 0" range="-60 60" limited="true"/>
   <geom name="left" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05" mass="4"
    contype="0"/></body>
  <body name="right_shin" pos="0 -0.2 0">
   <joint name="right_knee" axis="0 1 0" range="-60 60" limited="true"/>
   <geom name="right" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05" mass="4"
    contype="0"/></body></body>
</worldbody></mujoco>
"""
ROLES = '[roles]\nchest = "trunk"\nshanks = ["left_shin", "right_shin"]\n'
OWN = """
from jaxsim.simulation.measures import final
from optimize import Term

mass = final(lambda sample: sample.model.total_mass)  # of the member's own body
heavy = Term("heavy", "1", lambda model: mass, lambda x: x < 29.7)
"""


@pytest.fixture(scope="module")
def pogo(tmp_path_factory):
    """A file of a body of two links whose names are no roles, in the air over the ground."""
    path = tmp_path_factory.mktemp("pogo") / "pogo.xml"
    path.write_text(POGO)
    path.with_name("pogo.roles.toml").write_text(ROLES)
    return path


@pytest.fixture(scope="module")
def sitting(x64_module):
    return scenario("sit_to_stand")


def same(got, wanted, rtol=1e-11, atol=1e-11) -> None:
    """All arrays of two trees agree."""
    ours, theirs = leaves_by_path(got), leaves_by_path(wanted)
    assert list(ours) == list(theirs)
    for path, x in ours.items():
        np.testing.assert_allclose(x, theirs[path], rtol=rtol, atol=atol, err_msg=path)


def built(name: str, size: float, scheme: str) -> tuple:
    """A scenario of the adult of a size, by factor and by the character's options."""
    options = {"character.stature": 1.75 * size, "character.mass": 72 * size**3}
    given = {"world.scheme": scheme}
    return scenario(name, {"sizes.whole": size, **given}), scenario(name, {**options, **given})


@pytest.mark.parametrize(
    "name, scheme",
    [
        ("stand_pushed", "time_stepping"),
        pytest.param("near_wall", "per_step_optimisation", marks=pytest.mark.slow),
        pytest.param("near_wall", "time_stepping", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("x64_module")
def test_a_body_in_space_is_the_one_that_is_built_so_large(name, scheme):
    """Model, start, forces, and what controller and scheme hold of the body."""
    got, wanted = built(name, 0.9, scheme)
    assert float(got.model.total_mass) == pytest.approx(72 * 0.9**3, abs=10.0)
    for part in ("model", "scheme"):
        same(getattr(got, part), getattr(wanted, part))
    same(got.state.qd, wanted.state.qd)
    controllers = [made.controller for made in (got, wanted)]
    if hasattr(got.controller, "pose"):  # its height plays no part
        controllers = [dataclasses.replace(c, pose=c.pose[7:]) for c in controllers]
    same(*controllers)
    same(got.forces, wanted.forces)
    np.testing.assert_allclose(got.state.q, wanted.state.q, atol=1e-9)


def test_a_planar_body_is_the_one_that_scaling_makes(sitting):
    """Limbs of other sizes, one side of another length than the other, and all of it larger."""
    sizes = {"thigh": 0.9, "shank": 1.1, "leftShank[0]": 1.2, "arm": 1.05}
    got = sitting
    for name, factor in sizes.items():
        got = got.set(f"sizes.{name}", factor)
    left = np.array([1.2 * 1.1, 1.1, 1.1])
    limbs = {"thigh": 0.9, "rightShank": 1.1, "leftShank": left, "arm": 1.05}
    heavy = {name: float(np.prod(np.broadcast_to(x, 3))) for name, x in limbs.items()}
    scale = quick_jit(lambda m: scaled(m, limbs, heavy))
    same(got.model, scale(sitting.model))
    whole = sitting.set("sizes.whole", 0.8)
    scale = quick_jit(lambda m: scaled(m, 0.8, 0.8**3, strength=0.8**4))
    same(whole.model, scale(sitting.model))
    np.testing.assert_array_equal(whole.model.shape_size[-1], sitting.model.shape_size[-1])
    assert sitting.get("sizes.shank").tolist() == [1, 1, 1]
    assert got.get("sizes.leftShank[0]") == 1.2


def test_one_is_what_the_scenario_is_without(sitting):
    for path in ("sizes.whole", "sizes.shank"):
        one = sitting.set(path, 1.1).set("model.friction", 0.5).set(path, 1.0)
        assert not one.sizes and not one.resized
        same(one.tree, sitting.set("model.friction", 0.5).tree, 0, 0)


def test_the_order_in_which_numbers_are_set_does_not_matter(sitting):
    thigh = f"model.mass[{sitting.model.topology.link('leftThigh')}]"
    numbers = {"sizes.thigh": 1.1, thigh: 5.0, "state.qd[0]": 0.3, "sizes.foot": 0.9}
    made = []
    for order in (list(numbers), list(numbers)[::-1]):
        made.append(sitting)
        for name in order:
            made[-1] = made[-1].set(name, numbers[name])
    same(made[0].model, made[1].model, 0, 0)
    same(made[0].state, made[1].state, 0, 0)
    assert made[0].get(thigh) == 5.0
    link = sitting.model.topology.link("leftThigh")
    assert made[0].model.mass[link] == pytest.approx(5.0 * 1.1**3)


def test_mass_height_and_inertia_are_those_of_mujoco(sitting):
    mujoco: Any = pytest.importorskip("mujoco", reason="MuJoCo reads what is exported")
    made = sitting.set("sizes.shank", 1.1).set("sizes.thigh[0]", 0.9).set("sizes.whole", 0.95)
    own, top = made.model, made.model.topology
    mj = mujoco.MjModel.from_xml_string(to_mjcf(own))
    data = mujoco.MjData(mj)
    data.qpos[mjcf_q_index(top)] = np.asarray(made.state.q)
    mujoco.mj_forward(mj, data)
    table = {"Shank": 1.1**3, "Thigh": 0.9}
    mass = sum(
        m * 0.95**3 * next((f for part, f in table.items() if part in name), 1.0)
        for m, name in zip(np.asarray(sitting.model.mass), top.link_names)
    )
    assert mj.body_subtreemass[0] == pytest.approx(mass, rel=1e-9)
    kin = quick_jit(forward_kinematics)(own, made.state.q, made.state.qd)
    com = np.asarray(own.mass @ kin.com) / mass
    np.testing.assert_allclose(data.subtree_com[0], com, atol=1e-9)
    # of a thigh about the sideways axis, from the unscaled one: a lamina, stretched along x
    link = top.link("leftThigh")
    before = np.asarray(sitting.model.inertia)[link]
    along = (np.trace(before) / 2 - before[0, 0]) * 0.9 * 0.9**2
    across = (np.trace(before) / 2 - before[2, 2]) * 0.9
    wanted = (along + across) * 0.95**5
    assert own.inertia[link, 1, 1] == pytest.approx(wanted, rel=1e-9)
    body = mujoco.mj_name2id(mj, mujoco.mjtObj.mjOBJ_BODY, "leftThigh")
    assert max(mj.body_inertia[body]) == pytest.approx(wanted, rel=1e-9)


def test_who_stands_stands_and_who_sits_overlaps_nothing(sitting):
    """The least gap to what is below stays: on the longer of the two, legs or seat."""
    top = sitting.model.topology
    hip: Any = top.root_height
    feet = np.isin(np.arange(top.n_links), top.parts(("leftFoot", "rightFoot")))

    @quick_jit
    def lowest(model, q, qd):
        return lowest_point(model, forward_kinematics(model, q, qd), feet)

    def low(made):
        return float(lowest(made.model, made.state.q, made.state.qd))

    longer, shorter = (sitting.set("sizes.shank[0]", f) for f in (1.1, 0.9))
    way = 0.048 * np.cos(np.deg2rad(15))
    deep = pytest.approx(-START_DEPTH, abs=1e-6)
    assert low(sitting) == deep and low(longer) == deep
    assert longer.state.q[hip] - sitting.state.q[hip] == pytest.approx(way, abs=1e-6)
    assert low(shorter) == pytest.approx(way - START_DEPTH, abs=1e-6)
    assert shorter.state.q[hip] == pytest.approx(float(sitting.state.q[hip]), abs=1e-6)
    standing = scenario("sit_to_stand", {"character.start": "standing"}).set("sizes.whole", 0.7)
    assert low(standing) == deep


HEIGHT = Term("height", "m", lambda model: final(lambda sample: sample.obs.com[2]))
SHORT = {"sizes.shank[0]": [0.95, 1.1], "sizes.whole": [1.0, 0.9]}


def outcome(made, steps: int) -> tuple:
    """Height of the centre of mass and energy of a scenario by itself."""
    parts = made.model, made.controller, made.state, made.scheme, made.forces
    told = folded(*parts, steps)
    return float(told["height"]), float(told["energy"])


@partial(quick_jit, static_argnums=5)
def folded(model, controller, state, scheme, forces, steps):
    energy = Objective("x", 1.0, {"energy": 1.0}).measures(model)
    measures = {"height": HEIGHT.measure(model), **energy}
    options: Any = {"backend": "xla", "pushes": forces}
    return rollout(model, controller, state, scheme, steps, measures, **options).measures


@pytest.mark.parametrize("backend", ["fused", pytest.param("xla", marks=pytest.mark.slow)])
def test_a_member_of_a_batch_is_the_scenario_of_that_body(sitting, backend):
    judged = Objective("x", 0.0025, {"height": 1.0, "energy": 1.0}, terms=(HEIGHT,))
    problem = Problem(sitting, None, judged, backend=backend)
    parts, whole = problem.outcomes_at({k: np.array(v) for k, v in SHORT.items()})
    assert whole.all()
    for k in range(2):
        made = sitting
        for name, values in SHORT.items():
            made = made.set(name, values[k])
        found = parts["height"][k, 0], parts["energy"][k, 0]
        np.testing.assert_allclose(found, outcome(made, problem.steps), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["fused", "xla"])
def test_a_member_in_space_is_the_scenario_built_so_large(x64_module, backend):
    """Pushed on topple-free feet, which know their soles, mass and height."""
    base = scenario("stand_pushed", {"push[0].start": 0.0})
    judged = Objective("x", 0.06, {"height": 1.0, "energy": 1.0}, terms=(HEIGHT,))
    problem = Problem(base, None, judged, backend=backend)
    parts, whole = problem.outcomes_at({"sizes.whole": np.array([1.0, 0.9])})
    assert whole.all()
    options = {"character.stature": 1.75 * 0.9, "character.mass": 72 * 0.9**3, "push[0].start": 0.0}
    for k, made in enumerate((base, scenario("stand_pushed", options))):
        found = parts["height"][k, 0], parts["energy"][k, 0]
        np.testing.assert_allclose(found, outcome(made, problem.steps), rtol=1e-7)


def check_slope(base, path: str, seconds: float, backend: str) -> None:
    """The derivative of a motion's cost by two sizes, against central differences."""
    judged = Objective("x", seconds, {"height": 1.0, "energy": 1e-6}, terms=(HEIGHT,))
    numbers = {path: (0.8, 1.2), "sizes.whole": (0.8, 1.2)}
    problem = Problem(base.set(path, 1.03), numbers, judged, backend=backend)
    eps, z = 1e-6, np.zeros(2)
    _, slope = problem.value_and_slope(z)
    near = problem.evaluate(np.concatenate([z + eps * np.eye(2), z - eps * np.eye(2)])).fitness
    np.testing.assert_allclose(slope, (near[:2] - near[2:]) / (2 * eps), rtol=1e-5)
    assert abs(slope[0]) > 1e-4


def test_the_derivative_of_a_start_by_a_length(sitting):
    """Height of the centre of mass of the body that is put on the ground again."""

    def height(factor):
        made = sitting.with_tree(write(sitting.tree, "sizes.shank[0]", factor))
        kin = forward_kinematics(made.model, made.state.q, made.state.qd)
        return made.model.mass @ kin.com[:, 2]

    eps, at = 1e-6, 1.03
    slope, up, down = quick_jit(lambda x: (jax.grad(height)(x), height(x + eps), height(x - eps)))(
        at
    )
    slope, up, down = map(float, (slope, up, down))
    assert slope == pytest.approx((up - down) / (2 * eps), rel=1e-6) and slope > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["fused", "xla"])
def test_the_derivative_by_a_length_agrees_with_differences(x64_module, pogo, backend):
    base = scenario(pogo, {"world.dt": 0.002})
    check_slope(base.set("state.qd[2]", 0.5), "sizes.shank[2]", 0.01, backend)


@pytest.mark.slow
def test_the_derivative_of_who_rises_from_a_chair(sitting):
    check_slope(sitting, "sizes.shank[0]", 0.001, "fused")


@pytest.mark.slow
def test_a_robust_score_is_over_bodies(pogo):
    """Trials take the values in turn; each starts as far above the ground as the first."""
    judged = Objective("x", 0.01, {"height": 1.0}, terms=(HEIGHT,))
    base = scenario(pogo, {"world.dt": 0.002})
    numbers = {"model.gravity[2]": (-20.0, 0.0)}
    problem = Problem(
        base, numbers, judged, trials=3, spread=(0.0, 0.0), backend="xla",
        vary={"sizes.shank": [0.8, 1.0, 1.25]}, aggregate="worst",
    )  # fmt: skip
    parts, _ = problem.outcomes(problem.tunables.initial[None])
    alone = [outcome(base.set("sizes.shank", f), problem.steps)[0] for f in (0.8, 1.0, 1.25)]
    np.testing.assert_allclose(parts["height"][0], alone, rtol=1e-6)
    assert float(problem.evaluate(np.zeros((1, 1))).fitness[0]) == pytest.approx(max(alone))


def test_names_are_links_and_roles_with_or_without_a_side(pogo):
    base = scenario(pogo)
    names = [path for path in base.paths() if path.startswith("sizes.")]
    assert names == [
        "sizes.chest", "sizes.leftShank", "sizes.left_shin", "sizes.rightShank",
        "sizes.right_shin", "sizes.shank", "sizes.trunk", "sizes.whole",
    ]  # fmt: skip
    more = 1.2**3
    meant = {"shank": [1, more, more], "leftShank": [1, more, 1], "left_shin": [1, more, 1]}
    for name, factors in meant.items():
        made = base.set(f"sizes.{name}", 1.2)
        np.testing.assert_allclose(made.model.mass, base.model.mass * np.array(factors), rtol=1e-6)


def test_sweep_edge_sensitivity_and_view(x64, pogo, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)
    monkeypatch.chdir(tmp_path)
    quick: Any = {"seconds": 0.01, "set": {"world.dt": 0.002}}
    out = tmp_path / "run"
    vary = ["--vary", "sizes.shank=0.9:1.1:3", "--starts", "2", "--measure", "final_com_height"]
    asked = ["--seconds", "0.01", "--set", "world.dt=0.002", "--quiet", "--out", str(out)]
    asked += ["--precision", "float64"]
    assert main(["sweep", str(pogo), *vary, *asked]) == 0
    assert main(["view", str(out), "--at", "shank=1.1,start=1", "--quiet"]) == 0
    told = json.loads((out / "members" / "2_1" / "summary.json").read_text())
    assert told["total_mass"] == pytest.approx(20 + 8 * 1.1**3, rel=1e-6)
    found = member(out, {"shank": 1.1, "start": 1})
    height, _ = outcome(found.scenario, 5)
    assert found.told["final_com_height"] == pytest.approx(height, rel=1e-6)
    (tmp_path / "own.py").write_text(OWN)
    edge = Edge("sizes.shank[2]", 0.6, 1.4, 8, "own.py:heavy")
    found = sweep(pogo, {"sizes.trunk": [1.0]}, edge=edge, **quick)
    assert float(found["edge"].squeeze()) == pytest.approx(1.2)
    drawn = {"sizes.shank": Uniform(0.9, 1.1), "sizes.trunk": Uniform(0.99, 1.01)}
    table = sweep(pogo, drawn, sample="saltelli", count=8, measures=("final_com_height",), **quick)
    first = sobol_indices(table, "final_com_height")["first"]
    assert float(first.sel(number="sizes.shank")) > 0.5


@pytest.mark.parametrize(
    "path, value, error, message",
    [
        ("sizes.shnk", 1.1, KeyError, "nearest are: 'sizes.shank'"),
        ("sizes.shank", 0.0, ValueError, r"sizes.shank is 0, .* give 0.5 to 2"),
        ("sizes.whole", 3.0, ValueError, r"sizes.whole is 3, .* give 0.5 to 2"),
        ("sizes.shank[2]", np.nan, ValueError, "give 0.5 to 2"),
    ],
)
def test_mistakes_are_told_before_anything_runs(pogo, path, value, error, message):
    base = scenario(pogo)
    with pytest.raises(error, match=message):
        base.set(path, value)
    judged = Objective("x", 0.01, {"energy": 1.0})
    if error is ValueError:
        with pytest.raises(ValueError, match=r"outside of its bounds|give finite values"):
            sweep(base, {path: [1.0, value]})
        with pytest.raises(ValueError, match=r"give 0.5 to 2"):
            _ = Problem(base, {path: (min(value, 1), max(value, 1))}, judged).tunables
        with pytest.raises(ValueError, match=r"give 0.5 to 2"):
            Problem(base, None, judged, trials=2, vary={path: [1.0, value]}).varied()


@pytest.mark.slow
def test_a_clip_is_followed_by_one_body():
    with pytest.raises(ModelError, match="sizes do not vary where a clip is followed"):
        scenario("simbicon", {"sizes.shank": 1.1})


def test_chairs_of_many_heights_are_for_one_body(sitting):
    with pytest.raises(ModelError, match="for the body as it is"):
        as_seated(sitting.set("sizes.shank", 1.1))
