"""Roles files: what is read, and how a mistake is told."""

import shutil
from pathlib import Path

import pytest

from jaxsim.io.model_file import load_model
from jaxsim.io.toml_table import WorldError

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture
def with_file(tmp_path):
    """Loads the other humanoid with a roles file of this text."""

    def load(text):
        shutil.copy(MODELS / "other_humanoid.xml", tmp_path / "robot.xml")
        (tmp_path / "robot.roles.toml").write_text(text)
        return load_model(tmp_path / "robot.xml").model

    return load


@pytest.mark.parametrize("name", ["humanoid", "other_humanoid"])
def test_a_roles_file_is_short(name):
    assert len((MODELS / f"{name}.roles.toml").read_text().splitlines()) < 20


def test_what_a_file_says(with_file):
    feet = '[roles]\nfeet = ["a_pad", "b_pad"]\nthighs = ["a_leg", "b_leg"]\n'
    bent = with_file(feet + "[standing]\na_knee = -30\nb_knee = 30\n").topology.roles
    assert bent.character == "robot.xml" and bent.link("leftFoot") == "a_pad"
    assert bent.link("head") is None
    straight = with_file(feet).topology.roles
    assert straight.standing[:7] == bent.standing[:7] and straight.standing != bent.standing


@pytest.mark.parametrize(
    "text, told",
    [
        ('[roles]\nhead = "dom"\n', ["key 'head': there is no link 'dom'; did you mean 'dome'?"]),
        ('[roles]\nfeet = "a_pad"\n', ["key 'feet': is 'a_pad'; give two links"]),
        ('[roles]\nfeet = ["a_pad"]\n', ["key 'feet'", '["left one", "right one"]']),
        ('[roles]\nfeet = ["a_pad", "c"]\n', ["there is no link 'c'; the links are: base"]),
        ('[roles]\nfoot = "a_pad"\n', ["[roles], key 'foot': is not known here", "the keys are"]),
        ('[role]\nhead = "dome"\n', ["key 'role': is not known here; did you mean 'roles'?"]),
        ("[roles]\nhead = 3\n", ["key 'head': is 3; give a text in quotes"]),
        ("[standing]\nknee = 3\n", ["[standing]: pose: there is no joint 'knee'"]),
        ('[standing]\na_knee = "3"\n', ["[standing], key 'a_knee'", "give a finite number"]),
        ("[roles\n", ["this is not TOML"]),
    ],
)  # fmt: skip
def test_a_mistake_names_file_table_key_and_remedy(with_file, text, told):
    with pytest.raises(WorldError) as caught:
        with_file(text)
    assert "robot.roles.toml" in str(caught.value)
    for part in told:
        assert part in str(caught.value)
