"""Random numbers of keys and counters: as those of the distributions they are meant to have."""

import jax
import numpy as np
from scipy.stats import kstest

from jaxsim.fused import fuse
from optimize.environments.draws import member_keys, normal, uniform


def numbers(function, members=64, counts=64, size=5):
    def of(key):
        return jax.vmap(lambda count: function(key, count, size))(
            np.arange(counts, dtype=np.uint32)
        )

    return np.asarray(jax.vmap(of)(member_keys(3, members)))


def test_numbers_have_their_distributions():
    assert kstest(numbers(uniform).reshape(-1), "uniform").pvalue > 0.01
    assert kstest(numbers(normal).reshape(-1), "norm").pvalue > 0.01


def test_members_counts_and_places_are_not_correlated():
    x = numbers(uniform, 256, 16, 4).reshape(256, -1)
    found = np.corrcoef(x.T)[np.triu_indices(64, 1)]
    assert np.abs(found).max() < 5 / np.sqrt(256)
    assert abs(found.std() * np.sqrt(256) - 1) < 0.1
    across = np.corrcoef(x)[np.triu_indices(256, 1)]
    assert abs(across.std() * np.sqrt(64) - 1) < 0.05


def test_keys_differ_and_a_kernel_gives_the_same_numbers():
    keys = np.asarray(member_keys(0, 4096))
    assert len(set(keys.tolist())) == 4096
    assert set(keys.tolist()).isdisjoint(np.asarray(member_keys(1, 64)).tolist())
    count = np.uint32(7)
    fused = fuse(lambda key: uniform(key, count, 6))(keys[:8])
    assert np.array_equal(fused, jax.vmap(lambda key: uniform(key, count, 6))(keys[:8]))
