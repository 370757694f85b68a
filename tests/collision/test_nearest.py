"""Which contacts a step solves for, against a sorted list."""

import numpy as np
import pytest

from jaxsim.collision.nearest import nearest
from jaxsim.fused import fuse
from tests.compiling import quick_jit

MARGIN = 0.5
N, COUNT = 30, 8


def gaps(near, rng):
    """(N,) so many below the margin, and one that is no number."""
    below, above = rng.uniform(-1, MARGIN, near), rng.uniform(MARGIN, 2, N - near - 1)
    return rng.permutation(np.concatenate([below, above, [np.nan]])).astype(np.float32)


@pytest.mark.parametrize("near", [0, 3, COUNT, 20, N - 1])
def test_the_nearest_are_chosen_and_keep_their_order(near):
    gap = gaps(near, np.random.default_rng(near))
    chosen = quick_jit(lambda gap: nearest(gap, COUNT, MARGIN))(gap)
    wanted = np.sort(np.argsort(gap)[: min(near, COUNT)])  # NaN is sorted to the end
    used = np.arange(COUNT) < len(wanted)
    np.testing.assert_array_equal(chosen.used, used)
    np.testing.assert_array_equal(chosen.slot[used], wanted)
    place = np.full(N, -1)
    place[wanted] = np.arange(len(wanted))
    np.testing.assert_array_equal(chosen.place, place)
    assert int(chosen.dropped_contacts) == max(near - COUNT, 0)
    values = np.arange(1.0, N + 1)
    np.testing.assert_array_equal(chosen.gather(values)[used], values[wanted])
    assert not np.any(chosen.gather(values)[~used])
    kept = np.where(np.isin(np.arange(N), wanted), values, 0)
    np.testing.assert_array_equal(chosen.scatter(chosen.gather(values)), kept)


def test_of_equal_gaps_the_first_are_chosen():
    chosen = nearest(np.zeros(N, np.float32), COUNT, MARGIN)
    np.testing.assert_array_equal(chosen.slot, np.arange(COUNT))
    assert int(chosen.dropped_contacts) == N - COUNT


def test_a_kernel_chooses_the_same():
    rng = np.random.default_rng(1)
    batch = np.stack([gaps(near, rng) for near in (0, 3, COUNT, 20, N - 1)])
    chosen = fuse(lambda gap: nearest(gap, COUNT, MARGIN))(batch)
    for gap, slot, used, place in zip(batch, chosen.slot, chosen.used, chosen.place):
        one = nearest(gap, COUNT, MARGIN)
        np.testing.assert_array_equal(used, one.used)
        np.testing.assert_array_equal(slot[used], one.slot[used])
        np.testing.assert_array_equal(place, one.place)
