"""Losses of many members with their derivatives, as one program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsim.fused import fuse
from optimize.running.batch import batched

Loss = Callable[[Any, Any, Any], Any]  # () of z (n,), the rest of a member, what all share


def fused_loss_gradients(loss: Loss) -> Callable:
    """Losses (P,) and derivatives (P, n) by fused kernels, forward and backward.

    The function takes members (z, ...), each (P, ...), and what they share.
    """
    losses = fuse(loss, (0, 0, None))

    def summed(z, rest, shared):
        found = losses(z, rest, shared)
        return found.sum(), found

    both = jax.value_and_grad(summed, has_aux=True)

    def derivative(members, shared):
        (_, found), rows = both(members[0], members[1:], shared)
        return found, rows

    return derivative


def loss_gradients(loss: Loss, width: int, forward: bool) -> Callable:
    """Losses (P,) and derivatives (P, n) by XLA, ``width`` members together on a device.

    The function takes members (z, ...), each (P, ...), and what they share. forward: by a pass for
    each number, where a loop has no fixed end.
    """

    def loss_gradient(member, shared):
        z, *rest = member

        def of(z):
            return loss(z, rest, shared)

        if not forward:
            return jax.value_and_grad(of)(z)
        along = jax.vmap(lambda way: jax.jvp(of, (z,), (way,)), out_axes=(None, 0))
        return along(jnp.eye(z.shape[0], dtype=z.dtype))

    return batched(loss_gradient, width)
