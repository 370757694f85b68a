"""Random numbers from a key and a counter, in arithmetic that a kernel can do.

``jax.random`` cannot be part of a fused kernel. Here the n-th number of a key is a hash of both, so
that a motion can be restarted anywhere and gives the same numbers. The hash is "triple32" of C.
Wellons' hash prospector (public domain): a bijection of 32 bits of three rounds of multiplying and
shifting, whose outputs change by half of their bits with each bit of the input.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))
GOLDEN = 0x9E3779B9


def hash_bits(x: Array) -> Array:
    """Hash each of an array of uint32 numbers."""
    for shift, factor in ROUNDS:
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(14))


def member_keys(seed: int, members: int, first: int = 0) -> Array:
    """Keys (members,) of members ``first``, ``first`` + 1, ... of a seed, all different."""
    start = hash_bits(jnp.asarray([(seed + GOLDEN) % 2**32], jnp.uint32))
    return hash_bits(start ^ hash_bits(jnp.arange(first, first + members, dtype=jnp.uint32)))


def uniform(key: Array, count: Array, size: int, dtype=jnp.float32) -> Array:
    """Uniform numbers (size,) in [0, 1) of a key () uint32, at index ``count`` () uint32."""
    row = hash_bits(jnp.asarray(key) ^ hash_bits(jnp.asarray(count) + np.uint32(GOLDEN)))
    bits = hash_bits(row + np.uint32(GOLDEN) * (jnp.arange(size, dtype=jnp.uint32) + np.uint32(1)))
    return (bits >> np.uint32(8)).astype(dtype) * np.asarray(2.0**-24, dtype)


def normal(key: Array, count: Array, size: int, dtype=jnp.float32) -> Array:
    """Normally distributed numbers (size,), by the transform of Box and Muller."""
    half = -(-size // 2)
    u = uniform(key, count, 2 * half, dtype)
    radius = jnp.sqrt(-2 * jnp.log(1 - u[:half]))
    turn = 2 * np.pi * u[half:]
    return jnp.concatenate([radius * jnp.cos(turn), radius * jnp.sin(turn)])[:size]
