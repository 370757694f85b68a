"""Members in chunks over all devices."""

import jax.numpy as jnp
import numpy as np

from optimize.running.batch import batched, in_pieces


def test_parts_without_numbers_keep_their_shape():
    """As the multipliers of ceilings do where a problem has none."""

    def function(x, shared):
        return {"twice": 2 * x, "none": jnp.zeros((0,)), "rows": jnp.zeros((0, 3))}

    out = in_pieces(batched(function, 2), 4)(np.arange(5.0))
    np.testing.assert_array_equal(out["twice"], 2 * np.arange(5.0))
    assert out["none"].shape == (5, 0) and out["rows"].shape == (5, 0, 3)
