"""What was mistyped, and what was cut off on the disk: one line that names it, no traceback."""

import pytest

from optimize.cli.main import main
from tests.optimize.learning.test_ppo import BALL, CART


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("world.seconds.x=1", "world.seconds.x: the file has 10.0 there, which has no keys"),
        ("push[0].force.x=1", "push[0].force.x: the file has 300.0 there"),
        ("character.model.x.y=1", "the file has 'articulated_human' there"),
    ],
)
def test_a_key_that_leads_through_a_value_is_named(key, says, capsys):
    assert main(["simulate", "push", "--set", key, "--quiet"]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["verdict", "walk", "--starts=--"], ["list", "--debug=--"]])
def test_a_lone_pair_of_dashes_is_no_value(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and "error: argument --" in capsys.readouterr().err


def test_a_resumed_sweep_makes_its_table_and_tells_of_a_chunk_that_is_cut(tmp_path, capsys):
    pytest.importorskip("zarr")
    (tmp_path / "cart.xml").write_text(CART)
    (tmp_path / "cart.toml").write_text(BALL)
    out = tmp_path / "sweep"
    resume = ["sweep", "--out", str(out), "--resume", "--quiet"]
    vary = ["--vary", "model.friction=0.2,0.4", "--seconds", "0.05", "--measure", "distance"]
    cart = str(tmp_path / "cart.toml")
    assert main(["sweep", cart, *vary, "--csv", "--out", str(out), "--quiet"]) == 0
    table = (out / "sweep.csv").read_text()
    (out / "sweep.csv").unlink()
    assert main(resume) == 0 and (out / "sweep.csv").read_text() == table
    (chunk,) = (
        path for path in (out / "sweep.zarr" / "distance" / "c").rglob("*") if path.is_file()
    )
    chunk.write_bytes(chunk.read_bytes()[:8])
    capsys.readouterr()
    assert main(resume) == 2
    told = capsys.readouterr().err
    assert "sweep.zarr cannot be read" in told and "restore the file" in told
