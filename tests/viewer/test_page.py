"""The page: complete in itself, safe against names, true to the motion, alive in a browser."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest

from jaxsim.io.motion import Motion, MotionShape
from jaxsim.viewer import read_page, write_page
from jaxsim.viewer.colours import DARK, LIGHT, part_of
from jaxsim.viewer.page import SCRIPTS
from jaxsim.viewer.series import even_frames, normal_force, phase_bands, side_of, world_poses

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PLAYER = resources.files("jaxsim.viewer").joinpath("player")


def test_page_needs_nothing_from_outside(tmp_path, walker):
    write_page(tmp_path / "motion.html", walker, {"falls": 0})
    page = (tmp_path / "motion.html").read_text()
    for word in ("http", "//cdn", "src=", "href=", "@import", "url(", "fetch(", "import("):
        assert word not in page
    assert not re.search(r"\{\{[A-Z]+\}\}", page)
    assert len(page) < 1_500_000


def test_page_holds_every_file_of_the_player(tmp_path, walker):
    """Each script once and in the stated order; none is forgotten, none is stale."""
    scripts = {p.name for p in PLAYER.iterdir()} - {"page.html", "page.css"}
    assert scripts == {f"{name}.js" for name in SCRIPTS}
    write_page(tmp_path / "motion.html", walker)
    page = (tmp_path / "motion.html").read_text()
    texts = [PLAYER.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS]
    assert [page.count(text) for text in texts] == [1] * len(texts)
    assert sorted(texts, key=page.index) == texts
    assert page.count(PLAYER.joinpath("page.css").read_text("utf-8")) == 1


def test_page_takes_its_colours_from_the_table(tmp_path, walker):
    """As variables for its style, as names for its script; nowhere else is a colour stated."""
    write_page(tmp_path / "motion.html", walker)
    page, data = (tmp_path / "motion.html").read_text(), read_page(tmp_path / "motion.html")
    light, dark = page.split("prefers-color-scheme: dark", 1)
    for key, table, style in (("light", LIGHT, light), ("dark", DARK, dark)):
        assert table.items() <= data["colours"][key].items()
        assert all(f"--{name}: {colour};" in style for name, colour in table.items())
    files = "".join(p.read_text("utf-8") for p in PLAYER.iterdir())
    assert not re.search(r"#[0-9a-f]{6}\b", files)
    used = re.findall(r"(?:paint\.|var\(--)([a-z-]+)", files)
    assert set(used) - {"phases", "lines"} <= LIGHT.keys() == DARK.keys()
    parts = [part_of(walker, link) for link in range(-1, walker.n_links)]
    assert {"left", "right", "middle", "surroundings"} == set(parts)


def test_frames_are_embedded_as_they_are(tmp_path, walker):
    write_page(tmp_path / "motion.html", walker)
    data = read_page(tmp_path / "motion.html")
    assert len(data["time"]) == 301  # 5 s at 60 frames per second, both ends
    index = even_frames(walker.time, data["time"])
    np.testing.assert_allclose(data["time"], walker.time[index], atol=1e-6)
    np.testing.assert_allclose(data["link_pos"], walker.link_pos[index], atol=1e-5)
    np.testing.assert_allclose(data["link_quat"], walker.link_quat[index], atol=1e-4)
    np.testing.assert_array_equal(data["phase"], walker.phase[index])
    np.testing.assert_allclose(data["heights"][:, 0], walker.heights["head"][index], atol=1e-5)
    assert data["height_names"] == ["head", "pelvis", "com"]
    assert [link["part"] for link in data["links"]].count("right") == 6
    assert [phase for *_, phase in data["bands"]] == [p for *_, p in phase_bands(walker)]


def test_a_point_on_a_shape_is_where_it_was(tmp_path, walker):
    """Positions and rounded quaternions together place a foot's end within a millimetre."""
    write_page(tmp_path / "motion.html", walker)
    data = read_page(tmp_path / "motion.html")
    index = even_frames(walker.time, data["time"])
    shown = dataclasses.replace(
        walker.take(index), link_pos=data["link_pos"], link_quat=data["link_quat"]
    )
    toe = MotionShape("sphere", walker.link_names.index("left_foot"), (0.17, 0, 0), size=(0.03,))
    for k, frame in enumerate(index):
        now, _ = world_poses(shown, toe, k)
        was, _ = world_poses(walker, toe, int(frame))
        np.testing.assert_allclose(now, was, atol=1e-3)


def test_contacts_are_kept_where_active(tmp_path, falling):
    write_page(tmp_path / "motion.html", falling, fps=1000)
    data = read_page(tmp_path / "motion.html")
    assert len(data["time"]) == falling.n_frames  # never more than there are
    counts = np.diff(data["contact_start"])
    np.testing.assert_array_equal(counts, np.any(falling.contact_force != 0, axis=2).sum(axis=1))
    first = int(np.argmax(counts > 0))
    np.testing.assert_allclose(
        data["contact"][0],
        np.concatenate([falling.contact_pos[first, 0], falling.contact_force[first, 0]]),
        atol=1e-4,
    )
    assert data["force_step"] == 500.0


def test_short_phases_and_impacts_survive_the_frame_rate(tmp_path, falling):
    force, phase = falling.contact_force.copy(), falling.phase.copy()
    force[101, 0, 2] = 9000.0
    phase[51] = 1
    motion = dataclasses.replace(falling, contact_force=force, phase=phase)
    write_page(tmp_path / "motion.html", motion, fps=10)
    data = read_page(tmp_path / "motion.html")
    assert len(data["time"]) == 11
    assert data["force_peak"].max() == pytest.approx(9000.0)
    assert data["force"].max() < 9000.0
    assert sum(phase == 1 for *_, phase in data["bands"]) == 2


def test_names_are_escaped(tmp_path, falling):
    summary = {"<img>": "</script><b>", "group & more": {"x": "<i>"}}
    write_page(tmp_path / "motion.html", falling, summary)
    page = (tmp_path / "motion.html").read_text()
    for raw in ("<b>", "<img>", "<i>", "<script>boom"):
        assert raw not in page
    assert page.count("</script>") == 2  # of the data and of the player
    assert html.escape(falling.title) in page
    assert "&lt;img&gt;" in page and "group &amp; more" in page
    data = read_page(tmp_path / "motion.html")
    assert data["title"] == falling.title
    assert data["phases"] == list(falling.phase_names)


def test_placeholders_in_names_stay_words(tmp_path, falling):
    write_page(tmp_path / "motion.html", dataclasses.replace(falling, title="{{DATA}} {{TITLE}}"))
    page = (tmp_path / "motion.html").read_text()
    assert page.count("<h1>{{DATA}} {{TITLE}}</h1>") == 1


def test_summary_table(tmp_path, falling):
    summary = {
        "distance [m]": np.float32(1.23456),
        "fell": False,
        "steps": 12,
        "gains": np.array([1.0, 2.5]),
        "seed": None,
        "cost": {"effort": 3.0},
    }
    write_page(tmp_path / "motion.html", falling, summary)
    page = (tmp_path / "motion.html").read_text()
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', page)
    assert rows == [
        ("distance [m]", "1.2346"),
        ("fell", "no"),
        ("steps", "12"),
        ("gains", "1, 2.5"),
        ("seed", "-"),
        ("effort", "3"),
    ]
    assert "rowgroup" in page and ">cost<" in page


@pytest.mark.parametrize("count", [0, 1])
def test_few_frames(tmp_path, falling, count):
    write_page(tmp_path / "motion.html", falling.take(np.arange(count)))
    data = read_page(tmp_path / "motion.html")
    assert data["time"].shape == (count,)
    assert data["link_pos"].shape == (count, 2, 3)
    assert data["contact_start"].shape == (count + 1,)


def test_bad_samples_are_announced(tmp_path, falling):
    quat, time = falling.link_quat.copy(), falling.time.copy()
    quat[100:, 1], time[150:] = np.nan, np.nan
    motion = dataclasses.replace(falling, link_quat=quat, time=time)
    write_page(tmp_path / "motion.html", motion)
    data = read_page(tmp_path / "motion.html")
    assert "link_quat, at frame 100 (0.5 s)" in data["notice"]
    assert np.all(np.isfinite(data["time"]))
    assert np.all(data["link_quat"][-1, 1] == 0.0)


def test_gauges_and_ghost_are_embedded_only_where_there_are_any(tmp_path, falling, followed):
    write_page(tmp_path / "motion.html", followed)
    data = read_page(tmp_path / "motion.html")
    index = even_frames(followed.time, data["time"])
    assert [(g["name"], g["unit"], g["thresholds"]) for g in data["gauges"]] == [
        ("ankle <torque> $", "N m", [20.0, 40.0]),
        ("lean", "", []),
    ]
    assert data["gauges"][0]["scale"] == [0.0, 60.0]
    np.testing.assert_allclose(data["gauges"][1]["scale"], [-0.09, 0.0], atol=1e-3)
    values = np.stack([gauge.values[index] for gauge in followed.gauges.values()], 1)
    np.testing.assert_allclose(data["gauge_values"], values, atol=1e-5)
    np.testing.assert_allclose(data["ghost_pos"], followed.ghost_pos[index], atol=1e-5)
    np.testing.assert_allclose(data["ghost_quat"][:, 0], followed.link_quat[index, 0], atol=1e-4)
    assert "gauges['lean']" in data["notice"]  # a ghost may lack links, a gauge lacks nothing
    write_page(tmp_path / "motion.html", falling)
    data = read_page(tmp_path / "motion.html")
    assert not {"gauges", "gauge_values", "ghost_pos", "ghost_quat"} & data.keys()


def test_strips_have_their_stretches_of_all_frames(tmp_path, stepping, followed):
    write_page(tmp_path / "motion.html", stepping, fps=2)
    data = read_page(tmp_path / "motion.html")
    last = stepping.time[-1]
    assert [(s["name"], s["part"]) for s in data["strips"]] == [
        ("left <foot>", "left"),
        ("trunk", "middle"),
    ]
    np.testing.assert_allclose(data["strips"][0]["spans"], [[0.1, 0.2], [0.7, last]], atol=1e-9)
    assert data["strips"][1]["spans"] == []
    assert len(data["gauges"]) == 2 and data["gauge_values"].shape[1] == 2
    write_page(tmp_path / "motion.html", followed)
    assert "strips" not in read_page(tmp_path / "motion.html")


def test_errors(tmp_path, falling):
    with pytest.raises(ValueError, match="fps"):
        write_page(tmp_path / "motion.html", falling, fps=0)
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_page(tmp_path / "nowhere" / "motion.html", falling)
    (tmp_path / "other.html").write_text("<html></html>")
    with pytest.raises(ValueError, match="not a page"):
        read_page(tmp_path / "other.html")


def test_normal_force_follows_the_ground(falling):
    assert normal_force(falling)[-1] == pytest.approx(400.0)
    turned = MotionShape(
        "plane", -1, quat=(np.sqrt(0.5), 0, np.sqrt(0.5), 0)
    )  # its normal is world x
    motion = dataclasses.replace(falling, shapes=(turned,))
    assert normal_force(motion)[-1] == pytest.approx(-120.0)


def test_sides():
    assert side_of("right_arm") == ("right", "arm")
    assert side_of("Left foot") == ("left", "foot")
    assert side_of("trunk") == ("", "trunk")
    assert side_of("right") == ("", "right")


def browse(path, fragment: str) -> tuple[str, str]:
    """The page's text after its script ran, and what the browser logged."""
    done = subprocess.run(
        [
            *(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=2000"),
            f"{path.as_uri()}{fragment}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout, "\n".join(s for s in done.stderr.splitlines() if "CONSOLE" in s)


def reading(page: str, key: str) -> str:
    match = re.search(rf'id="{key}"[^>]*>(.*?)<', page)
    assert match, key
    return html.unescape(match[1])


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize("case", ["falling", "walker", "single", "empty", "bad"])
def test_page_runs_in_a_browser(tmp_path, falling: Motion, walker: Motion, case: str):
    bad = falling.link_pos.copy()
    bad[100:] = np.nan
    motion = {
        "falling": falling,
        "walker": walker,
        "single": falling.take(np.array([150])),
        "empty": falling.take(np.arange(0)),
        "bad": dataclasses.replace(falling, link_pos=bad),
    }[case]
    write_page(tmp_path / "motion.html", motion)
    page, log = browse(tmp_path / "motion.html", "#t=0.75&view=corner")
    assert log == ""
    assert 'data-ready="yes"' in page
    assert "player failed" not in reading(page, "notice")
    assert reading(page, "play") == "Play"
    if case == "empty":
        assert "no frames" in reading(page, "notice")
        return
    assert reading(page, "read-time") == "0.750 s"
    frame = int(np.searchsorted(motion.time, 0.75)) if motion.n_frames > 1 else 0
    assert reading(page, "phase-text") == motion.phase_names[motion.phase[frame]]
    assert reading(page, "read-height") == f"{motion.heights['head'][frame]:.3f} m"


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize(
    ("share", "zone", "width"), [(0.2, "below", 20), (0.5, "between", 50), (0.8, "above", 80)]
)
def test_a_gauge_moves_through_its_zones(tmp_path, followed, share, zone, width):
    write_page(tmp_path / "motion.html", followed, fps=1000)
    t = followed.time[round(share * (followed.n_frames - 1))]
    page, log = browse(tmp_path / "motion.html", f"#t={t:.4f}")
    assert log == "" and "player failed" not in reading(page, "notice")
    style = re.search(r'id="bar-0" style="(.*?)"', page)
    assert style and f"--{zone})" in style[1]
    shown = re.search(r"width: ([\d.]+)%", style[1])
    assert shown and float(shown[1]) == pytest.approx(width, abs=0.5)
    assert re.search(r'<b style="left: 33\.3\d*%;"></b><b style="left: 66\.6\d*%;"></b>', page)
    value = followed.gauges["ankle <torque> $"].values[round(share * (followed.n_frames - 1))]
    number, unit = reading(page, "read-gauge-0").split(" ", 1)
    assert float(number) == pytest.approx(value, abs=0.06) and unit == "N m"
    assert '<label id="ghost-label">' in page and 'id="chart-1"' in page


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_strips_are_drawn(tmp_path, stepping, followed):
    write_page(tmp_path / "motion.html", stepping)
    page, log = browse(tmp_path / "motion.html", "#t=0.5")
    assert log == "" and "player failed" not in reading(page, "notice")
    assert 'id="truths" role="img" aria-label="left &lt;foot&gt;, trunk"' in page.replace(
        ' style="height: 56px;"', ""
    )
    write_page(tmp_path / "motion.html", followed)
    assert 'id="truths"' not in browse(tmp_path / "motion.html", "#t=0.5")[0]


def test_shares_of_an_objective_are_embedded_where_there_are_any(tmp_path, falling, asked):
    write_page(tmp_path / "motion.html", asked)
    data = read_page(tmp_path / "motion.html")
    index = even_frames(asked.time, data["time"])
    assert data["share_names"] == ["<reach>", "damping"]
    wanted = np.stack([share[index] for share in asked.shares.values()], 1)
    np.testing.assert_allclose(data["shares"], wanted, atol=1e-6)
    write_page(tmp_path / "motion.html", falling)
    assert not {"shares", "share_names"} & read_page(tmp_path / "motion.html").keys()


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_shares_of_an_objective_are_drawn(tmp_path, falling, asked):
    write_page(tmp_path / "motion.html", asked)
    page, log = browse(tmp_path / "motion.html", "#t=0.5")
    assert log == "" and "player failed" not in reading(page, "notice")
    canvas = re.search(r'<canvas id="shares"[^>]*>', page)
    assert canvas and "hidden" not in canvas[0]
    assert 'aria-label="Share of the objective: &lt;reach&gt;, damping"' in canvas[0]
    assert not re.search(r' (width|height)="0"', canvas[0])
    write_page(tmp_path / "motion.html", falling)
    assert 'id="shares"' not in browse(tmp_path / "motion.html", "#t=0.5")[0]


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_page_without_gauges_or_ghost_shows_neither(tmp_path, falling):
    write_page(tmp_path / "motion.html", falling)
    page, log = browse(tmp_path / "motion.html", "#t=0.5")
    assert log == "" and 'id="bar-0"' not in page and 'id="chart-0"' not in page
    assert '<label id="ghost-label" hidden' in page
