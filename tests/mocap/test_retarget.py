"""Retargeting: a motion of a character's own comes back, real clips keep to the bounds."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jaxsim import load_model
from jaxsim.characters.human import articulated_human, ball_joint_human
from jaxsim.characters.planar_human import planar_human
from jaxsim.mocap.body import body_of
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.fit_angles import limit_change
from jaxsim.mocap.from_motion import clip_of_motion
from jaxsim.mocap.joint_map import as_toml, find_map, guess_map, read_map, write_map
from jaxsim.mocap.pin_feet import blend
from jaxsim.mocap.quality import BOUNDS, at_limits, failures, over_time, quality
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.reference import character_motion, save_reference
from jaxsim.mocap.rest_pose import TWISTS
from jaxsim.mocap.retarget import FASTEST, places, retarget
from jaxsim.mocap.rotations import angle_between, from_angles
from jaxsim.mocap.schemes import NamingScheme, detect_scheme
from jaxsim.model import ModelBuilder, ModelError, free, sphere
from jaxsim.model.state import neutral_q
from tests.mocap import bodies

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("mocap_clips", HERE / "clips.py")
assert spec is not None and spec.loader is not None
clips = importlib.util.module_from_spec(spec)
spec.loader.exec_module(clips)
HUMANOID = HERE.parent / "models" / "humanoid.xml"
WALK = "snu_walk_left_90degree__walk_turn.bvh"
PUNCH = "cmu_02_05__punch.amc"


@pytest.fixture(scope="module")
def balls():
    return ball_joint_human()


@pytest.fixture(scope="module")
def hinges():
    return articulated_human()


def clip_named(name):
    return read_clip(clips.FOLDER / name, **clips.options(name))


@pytest.fixture
def figure(tmp_path):
    """A clip of a human that drifts sideways with arms out, in files' usual form."""
    path = tmp_path / "figure.bvh"
    path.write_text(clips.figure(frames=40))
    return read_clip(path)


def own_motion(model, frames=60):
    """(T, nq) of a character that moves all its joints smoothly, well within their limits."""
    top, rng = model.topology, np.random.default_rng(0)
    time = np.linspace(0.0, 2.0 * np.pi, frames)
    q = np.tile(neutral_q(model), (frames, 1))
    body = body_of(model)
    for joint, (kind, start) in enumerate(zip(top.joint_kinds, top.q_start)):
        wave = 0.4 * np.sin(time[:, None] + rng.uniform(0, 6, 3)) + 0.2
        if kind == "free":
            q[:, start : start + 3] = [0.0, 0.0, 0.95] + 0.1 * wave
            q[:, start + 3 : start + 7] = from_angles("XYZ", 0.3 * wave)
        elif kind == "ball":
            q[:, start : start + 4] = from_angles("XYZ", wave)
        elif kind == "hinge" and top.joint_link[joint] in body.links:
            low, high = (float(x[joint]) for x in (model.joint_lower, model.joint_upper))
            q[:, start] = 0.5 * (low + high) + 0.3 * (high - low) * (wave[:, 0] - 0.2)
    return q


def recorded(model, q, rate=60.0):
    """A clip of these frames, with the character's links as joints."""
    body = body_of(model)
    found = places(model, body, q)
    # of a retargeted motion what is drawn needs only these
    time = np.arange(len(q)) / rate
    stance = np.zeros((len(q), 2), bool)
    holder = SimpleNamespace(
        model=model, q=q, rate=rate, time=time, name="own", stance=stance, **found
    )
    return clip_of_motion(character_motion(holder, ()), model.topology.link_parent, rate)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["balls", "hinges"])
def test_a_motion_of_its_own_comes_back(kind, request):
    model = request.getfixturevalue(kind)
    q = own_motion(model)
    found = retarget(recorded(model, q), model)
    assert found.scale == pytest.approx(1.0, abs=1e-4)
    frames = places(model, body_of(model), q)["frames"]
    turn = np.einsum("tkji,tkjl->tkil", frames, found.frames)
    angle = np.degrees(np.arccos(np.clip((np.trace(turn, axis1=2, axis2=3) - 1) / 2, -1, 1)))
    assert angle.max() < 0.5
    # the root goes the same way, but for the height of the floor
    root = found.q[:, :3] - q[:, :3]
    assert np.ptp(root, axis=0).max() < 1e-3


def test_a_tall_body_takes_longer_steps(figure, balls):
    tall, own = retarget(figure, ball_joint_human(stature=2.0)), retarget(figure, balls)
    assert tall.scale / own.scale == pytest.approx(2.0 / 1.75, rel=1e-4)
    way = [np.ptp(r.q[:, 1]) for r in (tall, own)]
    assert way[0] / way[1] == pytest.approx(2.0 / 1.75, rel=1e-3)


def test_limbs_point_as_those_of_the_figure(figure, balls):
    found = retarget(figure, balls)
    report = quality(found)
    assert report["bone direction error 95% deg"] < 0.05
    arm = found.frames[:, found.body.index("leftUpperArm"), :, 2]
    assert arm[0, 1] < -0.8  # z against an arm that points left
    assert set(over_time(found)) >= {"joint error mm", "left sole mm", "right knee flexion deg"}


def test_soles_of_standing_feet_are_on_the_floor(figure, balls):
    still = replace(figure, root_pos=figure.root_pos * np.array([1.0, 0.0, 1.0]))
    found = retarget(still, balls)
    assert found.stance.all()
    assert abs(np.median(found.soles[..., 2].min(axis=1))) < 1e-3
    assert quality(found)["sole tilt deg"] < 1.0


def test_pinned_feet_do_not_slip(figure, balls):
    sway = figure.root_pos * np.array([1.0, 0.05, 1.0])
    loose, pinned = (
        retarget(replace(figure, root_pos=sway), balls, pin=pin) for pin in (False, True)
    )
    slip = [np.ptp(r.points[:, r.body.index("leftFoot"), 1]) for r in (loose, pinned)]
    assert slip[0] > 0.01 and slip[1] < 2e-3


def test_corrections_fade_beside_a_stance():
    mask = np.zeros(50, bool)
    mask[20:30] = True
    faded = blend(np.ones((50, 1)), mask, 50.0)[:, 0]
    assert (faded[mask] == 1.0).all()
    assert faded[25 - 11] == 0.0 and faded[35] == 0.0
    assert 0.0 < faded[32] < 1.0
    assert np.abs(np.diff(faded)).max() < 0.4


def test_short_gaps_have_no_jumps():
    mask = np.ones(30, bool)
    mask[14:16] = False
    faded = blend(np.linspace(0.0, 1.0, 30)[:, None], mask, 100.0)[:, 0]
    assert np.abs(np.diff(faded)).max() < 0.35


def test_a_jump_becomes_a_ramp_around_it():
    q = np.zeros((41, 3))
    q[20:, 1], q[20:, 2] = 1.0, 1.0
    q[:20, 0] = 0.05 * np.arange(20)  # slow
    slow = limit_change(q, np.array([0, 1]), 0.1)
    assert np.abs(np.diff(slow[:, 1])).max() <= 0.1 + 1e-12
    assert slow[19, 1] + slow[20, 1] == pytest.approx(1.0)  # the middle is where it was
    assert slow[9, 1] == 0.0 and slow[30, 1] == 1.0
    assert np.array_equal(slow[:, 2], q[:, 2]) and np.allclose(slow[:9, 0], q[:9, 0])


@clips.needs_clips
def test_shoulders_overhead_do_not_jump(hinges):
    report = quality(retarget(clip_named("cmu_55_25__step_in_place.amc"), hinges))
    assert report["fastest joint rad/s"] <= FASTEST * 1.001


@clips.needs_clips
def test_hands_on_hips_point_as_the_clip_has_them(hinges):
    report = quality(retarget(clip_named("snu_wd2_idle_65__stand_idle.bvh"), hinges))
    assert failures(report) == []


def test_frames_of_other_number_compile_nothing_anew(figure, balls):
    from jaxsim.mocap.fit_angles import fit_hinges

    retarget(figure, balls)
    before = fit_hinges._cache_size()
    retarget(figure.take(slice(0, 23)), balls)
    assert fit_hinges._cache_size() == before


def test_a_guess_is_shown_for_confirmation(figure, balls, tmp_path):
    plain = replace(figure, joint_names=tuple(f"b{k}" for k in range(figure.n_joints)))
    with pytest.raises(ClipError, match=r"Its hierarchy suggests(.|\n)*leftThigh = \"b"):
        retarget(plain, balls)
    known = detect_scheme(figure.joint_names)
    assert known is not None
    guess = guess_map(plain)
    for role in ("leftThigh", "rightShank", "leftFoot", "rightUpperArm", "chest", "head"):
        joint = figure.joint_names[plain.joint(guess.joints[role])]
        assert joint == known.joints[role]
    write_map(tmp_path / "map.toml", guess)
    by_file = retarget(plain, balls, joints=tmp_path / "map.toml")
    by_guess = retarget(plain, balls, joints="guess")
    assert np.array_equal(by_file.q, by_guess.q)
    assert quality(by_file)["bone direction error mean deg"] < 0.05


def test_a_map_of_the_scheme_keeps_its_rest_pose(figure, tmp_path):
    scheme = detect_scheme(figure.joint_names)
    assert scheme is not None
    write_map(tmp_path / "map.toml", scheme)
    assert read_map(tmp_path / "map.toml", figure) == scheme


def test_a_map_with_a_joint_that_is_not_there(figure, tmp_path):
    scheme = detect_scheme(figure.joint_names)
    assert scheme is not None
    text = as_toml(scheme).replace('"LeftLeg"', '"LeftLegg"')
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(ClipError, match=r"leftShank is 'LeftLegg'.*nearest names are LeftLeg"):
        find_map(figure, tmp_path / "map.toml")
    (tmp_path / "map.toml").write_text('[joints]\nleftKnee = "LeftLeg"\n')
    with pytest.raises(ClipError, match="leftKnee"):
        find_map(figure, tmp_path / "map.toml")
    with pytest.raises(ClipError, match="no such file"):
        find_map(figure, tmp_path / "none.toml")
    twice = NamingScheme("none", {**scheme.joints, "leftShank": scheme.joints["leftThigh"]})
    with pytest.raises(ClipError, match="both leftThigh and leftShank"):
        find_map(figure, twice)


def test_clips_that_cannot_be_retargeted(tmp_path, figure, balls):
    (tmp_path / "stumps.bvh").write_text(clips.figure(feet=False))
    with pytest.raises(ClipError, match="no leftFoot"):
        retarget(read_clip(tmp_path / "stumps.bvh"), balls)
    with pytest.raises(ClipError, match="1 frame; a motion needs"):
        retarget(figure.take(slice(0, 1)), balls)
    with pytest.raises(ClipError, match="1 frames a second"):
        retarget(replace(figure, rate=1.0), balls)
    (tmp_path / "dog.bvh").write_text(clips.QUADRUPED)
    with pytest.raises(ClipError, match="no known naming scheme"):
        retarget(read_clip(tmp_path / "dog.bvh", rate=50.0), balls)
    with pytest.raises(ClipError, match="alignment is 'best'"):
        retarget(figure, balls, alignment="best")


def test_characters_that_cannot_be_driven(figure):
    with pytest.raises(ModelError, match="moves freely in space"):
        retarget(figure, planar_human())
    b = ModelBuilder()
    b.add_link("ball", "world", mass=1.0, inertia=np.eye(3), joints=[free("root")])
    b.add_shape("ball", sphere(0.1))
    with pytest.raises(ModelError, match="needs the roles pelvis, leftThigh"):
        retarget(figure, b.build())


@pytest.mark.slow
def test_an_imported_humanoid_follows(figure):
    found = retarget(figure, load_model(HUMANOID).model)
    report = quality(found)
    assert found.body.roles[0] == "chest"  # its root is the torso
    # shoulders of two hinges and limits: arms out to the sides are not reached
    legs = [
        found.body.index(f"{s}{limb}") for s in ("left", "right") for limb in ("Thigh", "Shank")
    ]
    down = -found.frames[:, legs][..., 2]
    for k, role in enumerate(("leftThigh", "leftShank", "rightThigh", "rightShank")):
        bone = found.source_bones[role]
        cosine = np.sum(down[:, k] * bone, axis=1) / np.linalg.norm(bone, axis=1)
        assert np.degrees(np.arccos(np.clip(cosine, -1, 1))).max() < 2.0
    assert report["deepest corner mm"] > -20.0


def test_hinges_stay_within_their_limits(figure, hinges):
    found, top = retarget(figure, hinges), hinges.topology
    for j in top.limited_joints:
        angle = found.q[:, top.q_start[j]]
        assert angle.min() >= float(hinges.joint_lower[j]) - 1e-6
        assert angle.max() <= float(hinges.joint_upper[j]) + 1e-6
    assert all(at.any() for at in at_limits(found).values())
    assert quality(found)["bone direction error mean deg"] < 0.5


def test_a_reference_is_written(figure, balls, tmp_path):
    found = retarget(figure, balls)
    save_reference(tmp_path / "reference.npz", found, tmp_path / "figure.bvh", "mine")
    with np.load(tmp_path / "reference.npz") as stored:
        assert np.array_equal(stored["q"], found.q)
        assert stored["rate"] == found.rate and stored["stance"].dtype == bool
        assert '"licence": "mine"' in str(stored["about"])
    quat = found.q[:, 3:7]
    assert np.abs(np.linalg.norm(quat, axis=1) - 1.0).max() < 1e-6
    assert angle_between(quat[:-1], quat[1:]).max() < 0.2


@clips.needs_clips
def test_a_walk_keeps_to_the_bounds(balls):
    report = quality(retarget(clip_named(WALK), balls))
    assert failures(report) == []
    assert report["sole tilt deg"] < 3.0
    assert report["left skate cm/s"] < 5.0


@clips.needs_clips
def test_elbows_of_cmu_bend_about_their_hinges(balls, monkeypatch):
    """With the twist of 30 degrees all of the forearm's turn is about the hinge's axis."""
    clip = clip_named(PUNCH).take(slice(0, 400))

    def off_axis():
        found = retarget(clip, balls)
        upper, lower = (
            found.frames[:, found.body.index(r)] for r in ("leftUpperArm", "leftForearm")
        )
        y = np.einsum("tji,tj->ti", upper, lower[..., 1])
        return float(np.degrees(np.arccos(np.clip(y[:, 1], -1, 1))).mean())

    assert off_axis() < 0.1
    monkeypatch.setitem(TWISTS, "CMU ASF", (0.0, 0.0))
    assert off_axis() > 10.0


@clips.needs_clips
def test_geometry_agrees_with_the_rest_pose(balls):
    clip = clip_named(PUNCH)
    rest, motion = (retarget(clip, balls, alignment=way) for way in ("rest", "geometry"))
    assert motion.aligned_by == "geometry"
    for role in ("leftForearm", "rightUpperArm", "leftShank"):
        turn = rest.alignment[role].T @ motion.alignment[role]
        assert np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))) < 6.0


@clips.needs_clips
@pytest.mark.slow
@pytest.mark.parametrize("name", clips.CLIPS)
def test_every_clip_keeps_to_the_bounds(name, balls):
    found = retarget(clip_named(name), balls)
    report = quality(found)
    print(name, {key: round(report[key], 2) for key in BOUNDS})
    assert failures(report) == []


def test_a_clip_needs_its_own_stance(figure, balls):
    from jaxsim.mocap.stance import Stance

    other = Stance(np.ones((7, 2), bool), np.zeros((7, 2), bool), figure.rate)
    with pytest.raises(ClipError, match="7 frames"):
        retarget(figure, balls, stance=other)
    assert isinstance(figure, Clip)


def test_the_command_writes_what_controllers_need(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from optimize.cli.main import main

    (tmp_path / "figure.bvh").write_text(clips.figure(frames=40))
    command = ["mocap", str(tmp_path / "figure.bvh")]
    out = tmp_path / "out"
    assert main([*command, "--character", "ball_joint_human", "--out", str(out)]) == 0
    assert "bone direction error mean deg  0.00" in capsys.readouterr().out
    names = {"joints.toml", "motion.html", "quality.png", "reference.npz", "stance.toml"}
    assert names <= {path.name for path in out.iterdir()}
    assert main([*command, "--pin"]) == 2
    assert "give --character too" in capsys.readouterr().err
    assert main([*command, "--character", "planar_human"]) == 2
    assert "moves freely" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hands", "feet", "head"),
    [
        ("fixed", "fixed", "fixed"),
        ("shape", "shape", "shape"),
        ("at the elbow", "at the knee", "none"),
        ("none", "fixed", "none"),
        ("nothing known", "shape", "fixed"),
    ],
)
def test_limbs_whose_ends_have_no_joint_have_a_direction(hands, feet, head):
    """Straight limbs that hang: their frames are the heading's, whatever tells where they end."""
    pytest.importorskip("mujoco", reason="MuJoCo reads what is imported")
    body = body_of(load_model(bodies.human(hands, feet, head), strict=False).model)
    assert ("head" in body.roles) == (head == "fixed")
    assert body.leg == pytest.approx(0.8, abs=0.1)
    np.testing.assert_allclose(body.offsets, np.tile(np.eye(3), (len(body.roles), 1, 1)), atol=0.15)
    for side in ("left", "right"):
        assert body.roles.index(f"{side}Foot") > body.roles.index(f"{side}Shank")


def test_a_body_without_joints_of_hands_feet_and_head_follows_a_clip(figure):
    pytest.importorskip("mujoco", reason="MuJoCo reads what is imported")
    model = load_model(bodies.human("fixed", "shape", "fixed"), strict=False).model
    found = retarget(figure, model)
    report = quality(found)
    assert np.isfinite(found.q).all() and np.isfinite(list(report.values())).all()
    assert report["bone direction error mean deg"] < 1.0


def test_no_bound_holds_of_what_is_no_number(figure, balls):
    report = quality(retarget(figure, balls))
    for name in BOUNDS.keys() & report:
        assert any(name in line for line in failures({**report, name: np.nan}))
    nowhere = np.zeros((40, 2), bool)  # nothing to measure is left out of the report
    still = replace(retarget(figure, balls), flat=nowhere)
    assert "left less right sole mm" not in quality(still)
    assert np.isfinite(list(quality(still).values())).all()


def test_a_motion_that_is_no_number_is_an_error(figure, balls, monkeypatch):
    def broken(model, body, source, A, scale):
        q = np.tile(neutral_q(model), (source.clip.n_frames, 1))
        q[3, model.topology.q_start[2]] = np.nan
        return q

    monkeypatch.setattr("jaxsim.mocap.retarget._solved", broken)
    with pytest.raises(ClipError, match="has no angle in frame 3"):
        retarget(figure, balls)
