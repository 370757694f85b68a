"""Evolution of weights: a cart is brought to the middle of its rail."""

import pytest

from optimize.learning.learn import learn
from tests.optimize.learning.test_ppo import BALL, CART


@pytest.mark.slow
@pytest.mark.parametrize("method", ["es", "cma"])
def test_returns_rise(method, tmp_path):
    (tmp_path / "cart.xml").write_text(CART)
    (tmp_path / "cart.toml").write_text(BALL)
    options = {"population": 32, "horizon": 50, "hidden": (8,)}
    cart = str(tmp_path / "cart.toml")
    found = learn(cart, tmp_path / "run", method, updates=25, options=options, progress=False)
    first, last = (
        line["parts"]["mean return"] for line in found.history[:: len(found.history) - 1]
    )
    assert last > 1.5 * first and found.worth > 1.5 * first
