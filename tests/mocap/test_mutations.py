"""Damaged files: one message with file, place and remedy, or a clip of finite numbers."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.read import read_clip
from tests.mocap.clips import AMC, ASF, figure

FILES = {"clip.bvh": figure(), "clip.asf": ASF, "clip.amc": AMC}
TOKENS = (
    *("nan", "inf", "-inf", "1e400", "1e9", "", "word", "{", "}", "-1", "0", "9" * 40, "1,5"),
    *("0x10", "1_0", "\0", "é", "JOINT", "MOTION", "Frames:", ":root", "begin", "end", "١"),
)


@st.composite
def damaged(draw):
    name = draw(st.sampled_from(sorted(FILES)))
    text = FILES[name]
    way = draw(st.sampled_from(("cut", "token", "drop", "twice", "count")))
    if way == "cut":
        return name, text[: draw(st.integers(0, len(text) - 1))]
    if way in ("token", "count"):
        words = list(re.finditer(r"\d+" if way == "count" else r"\S+", text))
        word = draw(st.sampled_from(words))
        new = draw(st.integers(0, 300)) if way == "count" else draw(st.sampled_from(TOKENS))
        return name, f"{text[: word.start()]}{new}{text[word.end() :]}"
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    lines[at : at + 1] = [] if way == "drop" else [lines[at]] * 2
    return name, "\n".join(lines)


@pytest.mark.filterwarnings("error")
@settings(max_examples=300)
@given(case=damaged())
def test_a_damaged_file_is_told_or_read_and_finite(case, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    name, text = case
    for each, good in FILES.items():
        (folder / each).write_text(text if each == name else good, "utf-8")
    path = folder / ("clip.bvh" if name.endswith("bvh") else "clip.amc")
    try:
        clip = read_clip(path, rate=None if name.endswith("bvh") else 60.0)
    except ClipError as error:
        message = str(error)
        assert "\n" not in message and message.startswith(("clip.", "line")), message
        assert re.search(r"expected .+, got .+; .+", message, re.DOTALL), message
        return
    pos, quat = poses_of(clip)
    assert np.isfinite(pos).all() and np.isfinite(quat).all()
