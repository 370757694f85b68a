"""What a script does to the planar human: targets, forces, transitions, numbers; float64.

Most tests hold the character still and play the controller alone, with contacts made up.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.scl.controller import BY_BOTH, BY_CONTACT, BY_TIME
from controllers.scl.load import script_controller
from jaxsim.characters.planar_human import planar_human, posed
from jaxsim.characters.registry import start
from jaxsim.dynamics.jacobians import com_velocity
from jaxsim.dynamics.kinematics import forward_kinematics, plane_angles, point_velocity
from jaxsim.dynamics.momentum import potential_energy
from jaxsim.model import ModelBuilder, hinge, neutral_state, slide
from jaxsim.simulation.contact_scheme import observe
from jaxsim.simulation.measures import final
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

STEPS, DT = 40, 0.01
POSE = {"rootAngle": 80, "hips": 20, "knees": -35, "ankles": 100, "elbows": 25, "shoulders": -20}


@pytest.fixture(scope="module")
def model(x64_module):
    """The planar human with nothing to touch, which compiles faster."""
    model = planar_human()
    return model.replace(topology=dataclasses.replace(model.topology, shape_pairs=()))


@pytest.fixture(scope="module")
def bent(model):
    """A state in the air, all joints off zero, left and right apart."""
    state = posed(model, POSE)
    rng = np.random.default_rng(0)
    q = np.asarray(state.q) + np.concatenate([[0.3, 2.0, 0], np.deg2rad(rng.uniform(-8, 8, 15))])
    return state.replace(q=jnp.asarray(q))


@pytest.fixture(scope="module")
def at_work():
    """``at_work(controller, model, state, touching, first)``: phases, wanted angles, torques,
    damping of each step, and the memory after them.

    The state stands still but for its time; touching (STEPS, nl) is what the controller is told
    of contacts; first is the phase to begin with.
    """

    def run(controller, model, state, touching, first):
        obs = observe(model, state, TimeStepping())

        def one(carry, now):
            memory, time = carry
            told = dataclasses.replace(obs, touching=now)
            memory, control = controller.update(
                memory, model, state.replace(time=time), told, jnp.asarray(DT)
            )
            kept = (memory.phase, memory.wanted, control.torque, control.damping)
            return (memory, time + DT), kept

        memory = dataclasses.replace(controller.init(model, state, None), phase=first)
        (memory, _), kept = jax.lax.scan(one, (memory, state.time), touching)
        return (*kept, memory)

    return quick_jit(run)


@pytest.fixture(scope="module")
def play(model, bent, at_work):
    """``play(text, state=bent, touching=none, first=0)``: the same for a script's text."""

    def run(text, state=None, touching=None, first=0):
        controller = script_controller(text, model)
        none = np.zeros((STEPS, model.topology.n_links), bool)
        result = at_work(
            controller,
            model,
            bent if state is None else state,
            none if touching is None else touching,
            np.int32(first),
        )
        return Played(model.topology, controller.program, *map(np.asarray, result[:4]), result[4])

    return run


# Phases that are looked at one by one, in one script: it compiles once.
PHASES = {
    "times": "[leftElbow 90, leftKnee -60 time: 0.2] [rightElbow 90] [rightKnee -10 time: 0]",
    "world": "[leftAnkle 170 child, rightHip 100 parent] [rightKnee 60 child time: 0.2]",
    "sole": "[leftAnkle 170 child]",
    "sole, another turn": "[leftAnkle -190 child]",
    "relax": "[relax leftElbow, knees strength 0.3]",
    "too much": "[knees -2000, waist 3000, leftElbow 26] [vf (9000, 0) on: head, by: waist]",
    "foot by waist": "[vf (11, 17) on: leftFoot, by: waist]",
    "other foot by waist": "[vf (11, 17) on: rightFoot, by: waist]",
    "trunk by ankle": "[vf (11, 17) on: trunk, by: leftAnkle]",
    "hand by shoulder": "[vf (11, 17) on: leftHand, by: leftShoulder]",
    "forearm by ankle": "[vf (11, 17) on: rightForearm, by: leftAnkle]",  # figure 4.3
    "head by hip": "[vf (11, 17) on: head, by: leftHip]",
    "symm": "[leftElbow 40] [symm] [vf (11, 17) on: leftFoot, by: waist] [symm]",
    "elbows": "[elbows 40]",
    "balance on left": "[vf sb(60, 9) on: trunk, by: leftAnkle]",
    "balance on both": "[vf sb(60, 9) on: trunk, by: leftAnkle] [symm]",
    "gc left": "[gc by: leftAnkle]",
    "gc right": "[gc by: rightAnkle]",
    "gc both": "[gc by: leftAnkle] [symm]",
    "reach": """[ik (0.05, 0.2), (-0.1, 0.1) on: rightAnkle rel: leftAnkle time: 0.2]
        [ik (0.25, -0.35) on: leftWrist rel: leftShoulder]""",
    "too far": """[ik (3, 1) on: leftWrist rel: leftShoulder]
        [ik (0.4, -4) on: rightAnkle rel: rightHip]""",
}
RELAXED = "[relax necks, waist, shoulders, elbows, wrists, hips, knees, ankles strength 0]"


@pytest.fixture(scope="module")
def play_phase(play):
    """``play_phase(name, state=bent)`` plays one of PHASES."""
    bodies = [RELAXED + body if "balance" in name else body for name, body in PHASES.items()]
    text = " after 99 ".join(f"{{ {body} }}" for body in bodies)
    return lambda name, state=None: play(text, state, first=list(PHASES).index(name))


@dataclasses.dataclass
class Played:
    """What a played script did, by joint name."""

    top: object
    program: object
    phase: np.ndarray
    wanted_all: np.ndarray
    torque_all: np.ndarray
    damping_all: np.ndarray
    memory: object

    def wanted(self, joint: str) -> np.ndarray:
        """(STEPS,) [rad]"""
        return self.wanted_all[:, list(self.program.dofs).index(self.top.dof(joint))]

    def torque(self, joint: str) -> np.ndarray:
        return self.torque_all[:, self.top.dof(joint)]

    def damping(self, joint: str) -> np.ndarray:
        return self.damping_all[:, self.top.dof(joint)]


def angle(state, model, joint: str) -> float:
    return float(state.q[model.topology.dof(joint)])


def with_joints(state, model, angles: dict):
    """The state with some joints at other angles [rad]."""
    q = np.array(state.q)
    for joint, value in angles.items():
        q[model.topology.dof(joint)] = value
    return state.replace(q=jnp.asarray(q))


@pytest.fixture(scope="module")
def place(model):
    """Kinematics and link orientations of a state."""

    def one(q, qd):
        kin = forward_kinematics(model, q, qd)
        return kin, plane_angles(model, q)

    jitted = quick_jit(one)
    return lambda state, qd=None: jax.tree.map(
        np.asarray, jitted(state.q, state.qd if qd is None else jnp.asarray(qd))
    )


_compiled: dict = {}


def _once(function, name: str):
    """The function, compiled for the first of several tests that use it."""
    return _compiled.setdefault(name, quick_jit(function))


# ---- targets ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interpolated(play_phase):
    return play_phase("times")


def test_target_moves_in_a_straight_line_over_its_time(model, bent, interpolated):
    time = np.arange(STEPS) * DT
    for joint, goal in (("leftElbow", 90), ("leftKnee", -60)):
        begin = angle(bent, model, joint)
        line = begin + (np.deg2rad(goal) - begin) * np.minimum(time / 0.2, 1)
        np.testing.assert_allclose(interpolated.wanted(joint), line, atol=1e-12)


def test_target_without_time_or_with_time_zero_holds_at_once(interpolated):
    np.testing.assert_allclose(interpolated.wanted("rightElbow"), np.pi / 2)
    np.testing.assert_allclose(interpolated.wanted("rightKnee"), np.deg2rad(-10))


def test_torque_is_that_of_the_gains_towards_the_target(model, bent, interpolated):
    """Equation 3.2 with table 4.2, for joints within their torque limits."""
    top = model.topology
    for joint in ("leftElbow", "waist", "rightHip"):
        dof = top.dof(joint)
        wanted = interpolated.wanted(joint)
        torque = model.gain_p[dof] * (wanted - bent.q[dof])
        np.testing.assert_allclose(
            interpolated.torque(joint), np.clip(torque, *limits(model, joint)), atol=1e-9
        )


def limits(model, joint: str) -> tuple[float, float]:
    limit = float(model.torque_limit[model.topology.dof(joint)])
    return -limit, limit


def test_joints_without_a_word_keep_the_starting_pose(model, bent, interpolated):
    for joint in ("waist", "leftHip", "rightAnkle", "neckTop"):
        np.testing.assert_allclose(interpolated.wanted(joint), angle(bent, model, joint))
    np.testing.assert_array_equal(interpolated.torque("waist"), 0)


def test_phases_inherit_the_targets_of_the_one_before(play, model, bent):
    """Also one that was still on its way; and after relax, the pose."""
    played = play(
        """{ [leftElbow 90] [leftKnee -60 time: 0.2] [relax rightElbow strength 0.5] }
        after 0.1
        { [rightKnee -10] }
        after 0.1
        { [leftKnee -20 time: 0.1] }"""
    )
    np.testing.assert_array_equal(played.phase, np.repeat([0, 1, 2], [10, 10, 20]))
    np.testing.assert_allclose(played.wanted("leftElbow"), np.pi / 2)
    np.testing.assert_allclose(played.wanted("rightElbow"), angle(bent, model, "rightElbow"))
    np.testing.assert_allclose(played.wanted("rightKnee")[10:], np.deg2rad(-10))
    begin = angle(bent, model, "leftKnee")
    halfway = begin + (np.deg2rad(-60) - begin) * 0.09 / 0.2
    np.testing.assert_allclose(played.wanted("leftKnee")[10:20], halfway)
    # a new target starts from where the joint is, not from where it was wanted
    np.testing.assert_allclose(played.wanted("leftKnee")[20], begin)
    np.testing.assert_allclose(played.wanted("leftKnee")[30:], np.deg2rad(-20))


def test_child_and_parent_targets_are_orientations_in_the_world(play_phase, model, bent, place):
    """Once the joint is where it is wanted, the link points where the script says."""
    played = play_phase("world")
    top = model.topology
    _, before = place(bent)

    moved = with_joints(bent, model, {"leftAnkle": played.wanted("leftAnkle")[0]})
    np.testing.assert_allclose(place(moved)[1][top.link("leftFoot")], np.deg2rad(170))

    # the hip is asked to hold the pelvis at 100 degrees over the thigh as it is
    wanted = played.wanted("rightHip")[0]
    thigh = before[top.link("rightThigh")]
    np.testing.assert_allclose(thigh - wanted, np.deg2rad(100))

    # on its way: the link's own orientation moves in a straight line
    time = np.arange(STEPS) * DT
    begin, above = before[top.link("rightShank")], before[top.link("rightThigh")]
    line = begin + (np.deg2rad(60) - begin) * np.minimum(time / 0.2, 1)
    np.testing.assert_allclose(played.wanted("rightKnee"), line - above, atol=1e-12)


def test_orientations_are_taken_the_short_way_round(play_phase, model, bent):
    """A character that has turned over once, or a goal given with another whole turn."""
    wanted = play_phase("sole").wanted("leftAnkle")[0]
    turned = with_joints(bent, model, {"rootAngle": angle(bent, model, "rootAngle") + 2 * np.pi})
    np.testing.assert_allclose(play_phase("sole", turned).wanted("leftAnkle")[0], wanted, atol=1e-9)
    other = play_phase("sole, another turn").wanted("leftAnkle")[0]
    np.testing.assert_allclose(other, wanted, atol=1e-9)
    assert 0 < wanted < np.pi


def test_relax_leaves_a_share_of_the_damping_and_no_stiffness(play_phase, model, bent):
    """Equations 4.1 and 4.2."""
    speed = np.zeros(18)
    top = model.topology
    for joint in ("leftElbow", "leftKnee", "rightElbow"):
        speed[top.dof(joint)] = 1.5
    moving = bent.replace(qd=jnp.asarray(speed))
    played = play_phase("relax", moving)
    np.testing.assert_allclose(played.torque("leftElbow"), -0.3 * 20 * 1.5)
    np.testing.assert_allclose(played.damping("leftElbow"), 0.3 * 20)
    np.testing.assert_allclose(played.torque("leftKnee"), -0.3 * 70 * 1.5)
    np.testing.assert_allclose(played.torque("rightKnee"), 0, atol=1e-12)
    np.testing.assert_allclose(played.damping("rightElbow"), 20)
    np.testing.assert_allclose(played.torque("rightElbow"), -20 * 1.5)


def test_torques_are_clipped_at_table_4_2(play_phase, model):
    """And a joint that is clipped has no damping, for its torque is constant."""
    played = play_phase("too much")
    np.testing.assert_array_equal(played.torque("leftKnee"), -300)
    np.testing.assert_array_equal(played.torque("waist"), 250)
    np.testing.assert_array_equal(played.damping("leftKnee"), 0)
    assert (np.abs(played.torque_all) <= np.asarray(model.torque_limit)).all()
    assert (played.damping("leftElbow") == 20).all()
    np.testing.assert_array_equal(played.torque_all[:, :3], 0)  # nothing drives the root


# ---- virtual forces --------------------------------------------------------------------------


def power(kin, on: int, base: int, force) -> float:
    """Of a force at the centre of mass of link ``on``, as the base link sees it move."""
    point = kin.com[on]
    return float(np.dot(force, velocity(kin, on, point) - velocity(kin, base, point)))


def velocity(kin, link: int, point) -> np.ndarray:
    return np.asarray(point_velocity(jax.tree.map(jnp.asarray, kin), link, jnp.asarray(point)))


@pytest.mark.parametrize(
    ("phase", "on", "base"),
    [
        ("foot by waist", "leftFoot", "trunk"),
        ("trunk by ankle", "trunk", "leftFoot"),
        ("hand by shoulder", "leftHand", "trunk"),
        ("forearm by ankle", "rightForearm", "leftFoot"),
        ("head by hip", "head", "leftThigh"),
    ],
)
def test_virtual_force_has_the_power_of_the_force(play_phase, model, bent, place, phase, on, base):
    """tau . qd = F . v of the link relative to the base link, for any motion (section 3.2)."""
    force = np.array([11.0, 0, 17.0])
    torque = play_phase(phase).torque_all[0]
    top = model.topology
    rng = np.random.default_rng(1)
    for qd in rng.normal(size=(3, top.nv)):
        kin, _ = place(bent, qd)
        wanted = power(kin, top.link(on), top.link(base), force)
        np.testing.assert_allclose(torque @ qd, wanted, rtol=1e-9)
    np.testing.assert_array_equal(torque[:3], 0)
    both = top.link_dofs[top.link(on)] & top.link_dofs[top.link(base)]
    neither = ~(top.link_dofs[top.link(on)] | top.link_dofs[top.link(base)])
    np.testing.assert_array_equal(torque[both | neither], 0)


def test_symm_repeats_a_primitive_on_the_other_side(play_phase):
    parts = ("foot by waist", "other foot by waist", "elbows")
    alone = sum(play_phase(name).torque_all[0] for name in parts)
    np.testing.assert_allclose(play_phase("symm").torque_all[0], alone, atol=1e-9)


def test_mirrored_phase_is_the_phase_with_sides_exchanged(play):
    played = play(
        """{ (a) [leftElbow 90] [vf (0, 40) on: trunk, by: leftAnkle] } after 0.1
        { (b) : (a) }"""
    )
    top = played.top
    np.testing.assert_allclose(played.wanted("rightElbow")[20:], np.pi / 2)
    left = [top.dof(name) for name in ("leftAnkle", "leftKnee", "leftHip")]
    right = [top.dof(name) for name in ("rightAnkle", "rightKnee", "rightHip")]
    assert np.abs(played.torque_all[0, left]).min() > 1
    assert np.abs(played.torque_all[-1, right]).min() > 1
    np.testing.assert_allclose(played.torque_all[0, right], 0, atol=1e-9)
    np.testing.assert_allclose(played.torque_all[-1, left], 0, atol=1e-9)


def test_balance_feedback_pushes_the_trunk_over_the_feet(play_phase, model, bent, place):
    """Equation 3.4; the span runs from the rearmost to the foremost tip of the base feet."""
    top = model.topology
    rng = np.random.default_rng(2)
    speed = 0.05 * rng.normal(size=top.nv)
    moving = bent.replace(qd=jnp.asarray(speed))
    kin, _ = place(moving)
    com = (np.asarray(model.mass)[:, None] * kin.com).sum(0) / 89.49
    drift = float(com_velocity(model, jax.tree.map(jnp.asarray, kin))[0])

    def tips(side: str) -> list[float]:
        foot = top.link(side + "Foot")
        heel = kin.link_pos[foot, 0]
        return [heel, heel - 0.226 * kin.link_rot[foot, 0, 0]]

    for bases, phase in ((("left",), "balance on left"), (("left", "right"), "balance on both")):
        torque = play_phase(phase, moving).torque_all[0]
        span = [x for side in bases for x in tips(side)]
        target = (min(span) + max(span)) / 2
        force = np.array([60 * (target - com[0]) - 9 * drift, 0, 0])
        qd = rng.normal(size=top.nv)
        moved, _ = place(bent, qd)
        wanted = sum(
            power(moved, top.link("trunk"), top.link(side + "Foot"), force) for side in bases
        )
        np.testing.assert_allclose(torque @ qd, wanted, rtol=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
def test_gravity_compensation_holds_the_links_over_the_planted_foot(
    play_phase, model, bent, place, side
):
    """Moved with that foot at rest, the body gains as potential energy what the torques give."""
    torque = play_phase(f"gc {side}").torque_all[0]
    assert (np.abs(torque[3:]) < 0.999 * np.asarray(model.torque_limit)[3:]).all()

    def height(q):
        return potential_energy(model, forward_kinematics(model, q, 0 * q))

    slope = np.asarray(_once(jax.grad(height), "slope")(bent.q))
    qd = planted(model, bent, place, side + "Foot", seed=3)
    np.testing.assert_allclose(torque @ qd, slope @ qd, rtol=1e-9)
    assert np.abs(torque[model.topology.dof(side + "Knee")]) > 1


def test_gravity_compensation_over_both_feet_puts_half_of_the_weight_on_each(play_phase):
    alone = [play_phase(f"gc {side}").torque_all[0] for side in ("left", "right")]
    both = play_phase("gc both").torque_all[0]
    np.testing.assert_allclose(both, sum(alone) / 2, atol=1e-9)


def planted(model, state, place, foot: str, seed: int) -> np.ndarray:
    """A random motion of all joints in which one foot does not move."""
    top = model.topology
    index = top.link(foot)

    def foot_motion(qd) -> np.ndarray:
        kin, _ = place(state, qd)
        return np.array([*velocity(kin, index, kin.com[index])[::2], kin.velocity[index, 1]])

    qd = np.random.default_rng(seed).normal(size=top.nv)
    qd[:3] = 0
    columns = np.stack([foot_motion(np.eye(top.nv)[k]) for k in range(3)], axis=1)
    qd[:3] = -np.linalg.solve(columns, foot_motion(qd))
    np.testing.assert_allclose(foot_motion(qd), 0, atol=1e-12)
    return qd


# ---- inverse kinematics ----------------------------------------------------------------------


def limb_end(played, place, state, model, end: str, step: int) -> np.ndarray:
    """x, z of the joint ``end`` once its limb is where it is wanted."""
    side = end.removesuffix("Wrist").removesuffix("Ankle")
    joints = ("Shoulder", "Elbow") if end.endswith("Wrist") else ("Hip", "Knee")
    wanted = {side + j: played.wanted(side + j)[step] for j in joints}
    kin, _ = place(with_joints(state, model, wanted))
    return kin.joint_anchor[model.topology.joint(end), ::2]


def test_ik_reaches_its_targets_along_straight_lines(play_phase, model, bent, place):
    """Equal times for all pieces, from where the end was; relative to another joint's start."""
    top = model.topology
    kin, _ = place(bent)
    at = {name: kin.joint_anchor[top.joint(name), ::2] for name in top.joint_names}
    played = play_phase("reach")
    first, second = at["leftAnkle"] + [0.05, 0.2], at["leftAnkle"] + [-0.1, 0.1]
    for step, target in (
        (0, at["rightAnkle"]),
        (5, (at["rightAnkle"] + first) / 2),
        (10, first),
        (15, (first + second) / 2),
        (20, second),
        (39, second),
    ):
        found = limb_end(played, place, bent, model, "rightAnkle", step)
        np.testing.assert_allclose(found, target, atol=1e-9)
    hand = limb_end(played, place, bent, model, "leftWrist", 0)
    np.testing.assert_allclose(hand, at["leftShoulder"] + [0.25, -0.35], atol=1e-9)
    # knees bend backward, elbows forward; both within table 4.2
    assert (played.wanted("rightKnee") < 0).all() and (played.wanted("rightKnee") > -2.8).all()
    assert (played.wanted("leftElbow") > 0).all() and (played.wanted("leftElbow") < 2.8).all()
    # joints that the ik does not name keep the starting pose
    np.testing.assert_allclose(played.wanted("leftHip"), angle(bent, model, "leftHip"))


def test_ik_out_of_reach_stretches_towards_the_target(play_phase, model, bent, place):
    played = play_phase("too far")
    top = model.topology
    kin, _ = place(bent)
    for end, root, target, reach in (
        ("leftWrist", "leftShoulder", [3, 1], 0.64),
        ("rightAnkle", "rightHip", [0.4, -4], 0.98),
    ):
        away = limb_end(played, place, bent, model, end, 0) - kin.joint_anchor[top.joint(root), ::2]
        np.testing.assert_allclose(np.linalg.norm(away), reach, atol=2e-4)
        np.testing.assert_allclose(
            away / np.linalg.norm(away), target / np.linalg.norm(target), atol=1e-3
        )
    assert abs(played.wanted("leftElbow")[0]) < 0.05 and abs(played.wanted("rightKnee")[0]) < 0.05


# ---- transitions -----------------------------------------------------------------------------


def contacts(model, **links: tuple[int, ...]) -> np.ndarray:
    """(STEPS, nl) bool: which steps each link is in contact, as (from, to, from, to, ...)."""
    touching = np.zeros((STEPS, model.topology.n_links), bool)
    for name, spans in links.items():
        for begin, end in zip(spans[::2], spans[1::2], strict=True):
            touching[begin:end, model.topology.link(name)] = True
    return touching


def test_time_transitions_come_at_the_exact_step(play):
    """After 0.07 s at 0.01 s a step, seven steps are done; the memory keeps a log."""
    played = play("{ } after 0.07 { } after 0 { } after 0.2 { [elbows 30] }")
    np.testing.assert_array_equal(played.phase, np.repeat([0, 1, 2, 3], [7, 1, 20, 12]))
    memory = played.memory
    assert int(memory.events) == 3
    np.testing.assert_allclose(memory.event_time[:3], [0.07, 0.08, 0.28], atol=1e-12)
    np.testing.assert_array_equal(memory.event_phase[:3], [1, 2, 3])
    np.testing.assert_array_equal(memory.event_cause[:3], BY_TIME)


CASES = [
    ("when contact feet", (12, 40), (), 12),
    ("when contact any feet", (), (9, 10), 9),
    ("when contact feet", (0, 40), (), 1),  # in contact from the start: at once
    ("when contact all feet", (12, 40), (20, 40), 20),
    ("when contact all feet", (5, 10), (20, 40), None),
    ("when contact established feet", (12, 40), (), 12),
    ("when contact established feet", (0, 40), (), None),  # it has been there all along
    ("when contact established feet", (0, 5, 9, 40), (), 9),
    ("when contact established all feet", (12, 40), (0, 40), None),
    ("when contact lost feet", (), (), None),
    ("when contact lost feet", (0, 8), (0, 40), 8),
    ("when contact lost all feet", (0, 8), (3, 15), 15),
    ("when contact changed feet", (0, 8), (), 8),
    ("when contact changed feet", (8, 40), (), 8),
    ("when contact changed feet", (), (0, 40), None),
    ("when contact changed all feet", (0, 8), (11, 40), 11),
    ("and when contact leftFoot after 0.2", (5, 40), (), 20),
    ("and when contact leftFoot after 0.2", (25, 40), (), 25),
    ("and when contact leftFoot after 0.2", (5, 10), (), None),
    ("and after 0.2 when contact lost feet", (5, 10), (), 20),
]
CONDITIONS = list(dict.fromkeys(case[0] for case in CASES))


@pytest.mark.parametrize(("condition", "left", "right", "step"), CASES)
def test_contact_transitions(play, model, condition, left, right, step):
    """Each condition ends a phase of one script."""
    text = " ".join(f"{{ }} {each}" for each in CONDITIONS) + " { }"
    first = CONDITIONS.index(condition)
    touching = contacts(model, leftFoot=left, rightFoot=right)
    played = play(text, touching=touching, first=first)
    later = np.flatnonzero(played.phase > first)
    assert (int(later[0]) if later.size else None) == step
    if step is not None:
        cause = BY_BOTH if condition.startswith("and") else BY_CONTACT
        assert int(played.memory.event_cause[0]) == cause
        assert int(played.memory.event_phase[0]) == first + 1


def test_contacts_are_remembered_from_the_beginning_of_the_phase_only(play, model):
    """A foot that was on and off before the phase has not changed within it."""
    text = "{ } after 0.1 { } when contact changed leftFoot { }"
    early = play(text, touching=contacts(model, leftFoot=(2, 6)))
    np.testing.assert_array_equal(early.phase, np.repeat([0, 1], [10, 30]))
    late = play(text, touching=contacts(model, leftFoot=(2, 6, 15, 20)))
    np.testing.assert_array_equal(late.phase, np.repeat([0, 1, 2], [10, 5, 25]))


def test_finally_goes_round_and_targets_with_it(play):
    played = play(
        """{ (first) } after 0.05 { (a) [leftElbow 90] } after 0.03 { (b) [leftElbow 0] }
        finally after 0.04 backto a"""
    )
    cycle = np.repeat([1, 2], [3, 4])
    np.testing.assert_array_equal(played.phase, np.concatenate([[0] * 5, np.tile(cycle, 5)]))
    np.testing.assert_allclose(
        played.wanted("leftElbow")[5:], np.where(played.phase[5:] == 1, np.pi / 2, 0)
    )
    assert int(played.memory.events) == 10


def test_last_phase_stays(play_phase):
    assert (play_phase("too far").phase == len(PHASES) - 1).all()


@pytest.mark.parametrize("dt", [0.00025, 0.001, 0.002])
def test_float32_counts_long_phases_exactly(dt):
    """A sum of 8000 time steps in float32 is off by a step; the controller's clock is not."""
    with jax.enable_x64(False):
        model = planar_human()
        controller = script_controller("{ } after 0.6 { } after 2 { }", model)
        state = posed(model, {})

        def run(controller, state, dt):
            obs = observe(model, state, TimeStepping())

            def one(memory, _):
                memory, _ = controller.update(memory, model, state, obs, dt)
                return memory, memory.phase

            return jax.lax.scan(
                one, controller.init(model, state, None), length=round(2.7 / 0.00025)
            )[1]

        phase = np.asarray(_once(run, "long")(controller, state, jnp.asarray(dt)))
    np.testing.assert_array_equal(
        [np.argmax(phase == 1), np.argmax(phase == 2)],
        [round(0.6 / dt), round(0.6 / dt) + round(2 / dt)],
    )


# ---- numbers ---------------------------------------------------------------------------------

REACH = """{{ [elbow {0}, wrist {1} time: {2}] [vf ({3}, 2) on: hand, by: shoulder] }}
after {4} {{ [wrist {5}] [ik (0.2, -0.3) on: wrist rel: shoulder time: 0.05] }}"""
NUMBERS = (40, -50, 0.02, 1, 0.01, 12)
MEMBERS = 1000


def build_arm():
    """A trunk with one arm, falling freely: compiles in a fraction of the human's time."""
    b = ModelBuilder()
    body = dict(mass=2.0, com=(-0.15, 0, 0), inertia=(0.02, 0.04, 0.02))
    turn = (0, -1, 0)
    root = [slide("rootX", (1, 0, 0)), slide("rootZ", (0, 0, 1)), hinge("rootAngle", turn)]
    b.add_link("trunk", "world", joints=root, **body)
    parent, options = "trunk", dict(kp=30.0, kd=2.0, max_torque=50.0)
    for link, joint, range_deg in (
        ("arm", "shoulder", (-90, 180)),
        ("forearm", "elbow", (0, 160)),
        ("hand", "wrist", (-90, 90)),
    ):
        pos = (0.0 if link == "arm" else -0.3, 0, 0)
        joints = [hinge(joint, turn, limits=tuple(np.deg2rad(range_deg)), **options)]
        b.add_link(link, parent, pos=pos, joints=joints, **body)
        parent = link
    return b.build()


@pytest.fixture(scope="module")
def arm(x64_module):
    return build_arm()


@pytest.fixture(scope="module")
def hanging(arm):
    """A state of the arm with its joints off zero."""
    state = neutral_state(arm)
    return state.replace(q=jnp.array([0.0, 1.0, 1.4, -0.3, 0.6, 0.2]))


def test_scripts_that_differ_in_numbers_share_their_program(arm):
    one = script_controller(REACH.format(*NUMBERS), arm)
    other = script_controller(REACH.format(55, -20, 0.1, -3, 0.02, 5), arm)
    assert one.program is not other.program
    assert one.program == other.program and hash(one.program) == hash(other.program)
    assert not np.array_equal(one.values, other.values)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    third = script_controller(REACH.format(*NUMBERS).replace("[wrist", "[elbow"), arm)
    assert third.program != one.program


@pytest.fixture(scope="module")
def fly(arm):
    """``fly(values, state)``: joint angles, height of the hand and phase after 20 steps."""
    controller = script_controller(REACH.format(*NUMBERS), arm)
    hand = arm.topology.link("hand")
    measures = {"hand": final(lambda sample: sample.obs.kin.com[hand, 2])}

    def one(values, state):
        at_work = controller.replace(values=values)
        result = rollout(arm, at_work, state, TimeStepping(dt=0.001), 20, measures)
        return result.state.q, result.measures["hand"], result.memory.phase

    return one


def random_values(count: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    values = np.array([40, -50, 0.02, 1, 2, 0.01, 12, 0.2, -0.3, 0.05])
    return values * rng.uniform(0.5, 1.5, (count, values.size))


@pytest.fixture(scope="module")
def fly_all(fly):
    """The same for MEMBERS vectors of values."""
    return quick_jit(jax.vmap(fly, (0, None)))


def test_a_thousand_members_are_what_they_are_alone(fly, fly_all, hanging):
    values = random_values(MEMBERS)
    q, hand, phase = fly_all(values, hanging)
    assert np.isfinite(q).all() and (phase == 1).all()
    assert np.unique(np.round(hand, 9)).size > 900
    alone = quick_jit(fly)
    for k in (0, 1, 500, 998, 999):
        q_k, hand_k, _ = alone(values[k], hanging)
        np.testing.assert_allclose(q[k], q_k, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hand[k], hand_k, rtol=1e-9)


def test_gradient_with_regard_to_the_numbers_is_that_of_finite_differences(fly, fly_all, hanging):
    values = np.array([40, -50, 0.02, 1, 2, 0.0105, 12, 0.2, -0.3, 0.05])
    gradient = np.asarray(quick_jit(jax.grad(lambda v, s: fly(v, s)[1]))(values, hanging))
    assert np.isfinite(gradient).all()
    h = 1e-5 * np.maximum(np.abs(values), 0.1)
    moved = values + np.concatenate([np.diag(h), -np.diag(h)])
    padded = np.concatenate([moved, random_values(MEMBERS)])[:MEMBERS]
    _, hand, _ = fly_all(padded, hanging)
    wanted = (hand[: values.size] - hand[values.size : 2 * values.size]) / (2 * h)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-9)
    assert gradient[5] == 0  # when a phase ends is a switch, without a slope
    assert np.count_nonzero(gradient) >= 8


def test_changed_numbers_compile_nothing_anew(arm, hanging):
    """Script numbers, masses, friction, states, time steps: one trace, one program."""
    traces = []

    def run(controller, model, state, config):
        traces.append(1)
        return rollout(model, controller, state, config, 2).state.q

    run = quick_jit(run)
    first = script_controller(REACH.format(*NUMBERS), arm)
    run(first, arm, hanging, TimeStepping(dt=0.001))
    run(first.replace(values=2 * first.values), arm, hanging, TimeStepping(dt=0.002))
    again = script_controller(REACH.format(1, -2, 3, 4, 5, 6), arm)
    heavier = arm.replace(mass=1.1 * arm.mass, gain_p=arm.gain_p / 2)
    run(
        again, heavier, hanging.replace(q=hanging.q + 0.1), TimeStepping(dt=0.001, bounce_speed=0.3)
    )
    assert len(traces) == 1 and run._cache_size() == 1


def test_contacts_of_the_simulation_reach_the_script():
    """Standing, the soles are down and the hands free."""
    model = planar_human()
    standing = quick_jit(lambda model: start(model, "standing"))(model)
    text = "{ } when contact all feet { } and when contact any hands after 0.01 { }"
    controller = script_controller(text, model)
    run = quick_jit(lambda c, s: rollout(model, c, s, TimeStepping(dt=0.001), 20).memory)
    memory = run(controller, standing)
    assert int(memory.phase) == 1 and int(memory.event_cause[0]) == BY_CONTACT
