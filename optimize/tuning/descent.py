"""Optimisers of optax along the derivative of the loss, as a method of a search."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

RATE = 0.2  # learning rate, in step sizes


class DescentState(NamedTuple):
    inner: Any  # of optax
    x: jax.Array  # (n,) asked next
    last: jax.Array  # (n,) the last one with a finite loss and derivative
    sigma: jax.Array


@dataclass(frozen=True)
class Descent:
    """Gradient descent by an optimiser of optax: one member a generation, along its derivative.

    Where the loss or the derivative is not finite the step is halved.
    """

    name: str
    rate: float
    rows: int = 1
    ranked: bool = False
    gradient_based: bool = True
    parted: bool = False

    def init(self, mean, sigma, population, seed) -> DescentState:
        x = jnp.asarray(mean, float)
        sigma = jnp.asarray(sigma, x.dtype)
        return DescentState(self._made(sigma).init(x), x, x, sigma)

    def ask(self, state: DescentState):
        return state.x[None], state

    def tell(self, state: DescentState, x, fitness, slope=None) -> DescentState:
        assert slope is not None
        good = jnp.isfinite(fitness[0]) & jnp.isfinite(slope[0]).all()
        update, inner = self._made(state.sigma).update(slope[0], state.inner, x[0])
        taken = DescentState(inner, optax.apply_updates(x[0], update), x[0], state.sigma)  # type: ignore
        halved = state._replace(x=(x[0] + state.last) / 2)
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), taken, halved)

    def mean(self, state: DescentState):
        return state.x

    def sigma(self, state: DescentState):
        return state.sigma

    def size(self, state: DescentState):
        return jnp.ones((), jnp.int32)

    def restarts(self, state: DescentState):
        return jnp.zeros((), jnp.int32)

    def _made(self, sigma) -> optax.GradientTransformation:
        return getattr(optax, self.name)(self.rate * sigma)


def optimiser(text: str) -> Descent:
    """Parse the name of an optax optimiser with its learning rate: "adam" or "adam@0.1".

    Raises ValueError for an unknown one, and for one that needs more than the derivative.
    """
    name, at, rate = text.partition("@")
    try:
        value = float(rate) if at else RATE
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise ValueError(f"method {text!r}: after '@' stands a learning rate, in step sizes")
    if name not in optimisers():
        raise ValueError(
            f"method {name!r}: there are cma, sep-cma, openai-es, random, and of optax"
            f" {', '.join(optimisers())}"
        )
    return Descent(name, value)


def optimisers() -> tuple[str, ...]:
    """Names of the optax optimisers that need only a learning rate and the derivative."""
    return tuple(name for name in dir(optax) if _plain(getattr(optax, name)))


def _plain(make: Any) -> bool:
    if not inspect.isfunction(make) or make.__name__.startswith("scale"):
        return False
    first, *rest = [*inspect.signature(make).parameters.values(), None]
    named = first is not None and first.name == "learning_rate"
    optional = all(p is None or p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in rest)
    return named and optional and make.__name__ != "lbfgs"  # which needs values along a line
