"""Sizes of a scenario's character as numbers: of its whole body, and of each limb.

Names are those of links and roles, with their side ("leftShank") or without it ("shank": both), and
``WHOLE``. Each except ``WHOLE`` has three factors, along the axes of its link; a link that is named
twice has the product. Where all are 1, nothing is computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxsim.characters.poses import without_side
from jaxsim.characters.scaling import scaled
from jaxsim.collision.box_box import FAR
from jaxsim.collision.contacts import find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.safe import safe_max
from jaxsim.model import Model, State
from jaxsim.model.topology import Topology

WHOLE = "whole"
LEAST, MOST = 0.5, 2.0  # factors; beyond these a body is another one
UPWARD = 0.5  # of a contact that bears: the least vertical part of its normal


@lru_cache
def links_by_name(top: Topology, kinds: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Links of the character by name: links, then roles, each also without its side.

    kinds: (nl,) of a scenario; {} where there is no character.
    """
    own = [i for i, kind in enumerate(kinds) if kind == "character"]
    named = [(top.link_names[i], i) for i in own]
    named += [(role, i) for role, link in top.roles.links if (i := top.link(link)) in own]
    found: dict[str, list[int]] = {}
    for both in (True, False):
        for name, link in named:
            links = found.setdefault(without_side(name) if both else name, [])
            if link not in links:
                links.append(link)
    return {name: tuple(links) for name, links in found.items() if name != WHOLE}


def all_ones(top: Topology, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Size factors of 1 for all names."""
    names = links_by_name(top, kinds)
    return {WHOLE: 1.0, **{name: np.ones(3) for name in names}} if names else {}


def changed_sizes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Size factors that are not 1, or may not be.

    Raises ValueError for a known one out of its range.
    """
    found = {}
    for name, factors in sizes.items():
        if not isinstance(factors, Tracer):
            check_sizes(f"sizes.{name}", factors)
            if (np.asarray(factors) == 1).all():
                continue
        found[name] = factors
    return found


def check_sizes(path: str, values: Any) -> None:
    """Raise ValueError for the path of a size with a value out of its range."""
    given = np.asarray(values, float)
    if path.startswith("sizes.") and not ((given >= LEAST) & (given <= MOST)).all():
        bad = given[~((given >= LEAST) & (given <= MOST))]
        raise ValueError(
            f"{path} is {bad[0]:g}, a factor of what the scenario has; give {LEAST:g} to {MOST:g}"
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Growth:
    """Resizing of the body in the scenario's file; arrays may be traced.

    whole: () and limbs: (nl, 3), factors; None where all are 1. character: (nl,) which links grow.
    """

    whole: Any
    limbs: Array | None
    character: tuple[bool, ...] = field(metadata={"static": True})

    @classmethod
    def of(cls, sizes: Mapping[str, Any], model: Model, kinds: tuple[str, ...]) -> "Growth":
        """Resizing by factors by name, those that are not 1."""
        dtype, limbs = model.mass.dtype, None
        for name, links in links_by_name(model.topology, kinds).items():
            if name in sizes:
                limbs = jnp.ones((len(kinds), 3), dtype) if limbs is None else limbs
                meant = np.isin(np.arange(len(kinds)), links)[:, None]
                limbs = limbs * jnp.where(meant, jnp.asarray(sizes[name], dtype), 1.0)
        whole = jnp.asarray(sizes[WHOLE], dtype) if WHOLE in sizes else None
        return cls(whole, limbs, tuple(kind == "character" for kind in kinds))

    @jax.jit
    def __call__(self, model: Model) -> Model:
        """Model resized; also a model that has only the first links of the scenario's.

        As a whole a body grows in all directions, its mass with the cube, and its motors with the
        fourth power, so that it moves alike (Hof 1996). A limb has the mass of its volume, the
        product of its factors, and the motors that it had.
        """
        n = model.topology.n_links
        if self.whole is not None:
            s = jnp.where(np.array(self.character[:n]), self.whole, 1.0)
            model = scaled(model, s, s**3, strength=s**4)
        if self.limbs is not None:
            own = self.limbs[:n]
            model = scaled(model, own, own[:, 0] * own[:, 1] * own[:, 2])
        return model

    @property
    def factors(self) -> Array:
        """Product (nl, 3) of whole and limb factors."""
        mine = np.array(self.character)[:, None]
        whole = 1.0 if self.whole is None else jnp.where(mine, self.whole, 1.0)
        return whole * (jnp.ones((len(mine), 3)) if self.limbs is None else self.limbs)


def resize_parts(parts: Mapping[str, Any], sizes: Mapping[str, Any], kinds: Sequence[str]) -> dict:
    """Parts of a scenario for a body of these sizes: model, state, and the parts that depend on it.

    Controller and scheme are made for it by their ``resized(model, grow)``.
    The points of forces move with their links. Joints keep their angles; the height of the body is
    such that the least gap to what is below it stays.
    """
    model, kinds = parts["model"], tuple(kinds)
    growth = Growth.of(sizes, model, kinds)
    after = growth(model)
    state = keep_clearance(model, after, parts["state"], growth.character)
    out = {"model": after, "state": state}
    for name in ("controller", "scheme"):
        out[name] = parts[name].resized(model, growth)
    forces = parts["forces"]
    if forces is not None:
        factors = jnp.concatenate([growth.factors, jnp.ones((1, 3))])  # the last is the world
        point = forces.point * factors.astype(forces.point.dtype)[forces.link]
        out["forces"] = replace(forces, point=point)
    return out


@partial(jax.jit, static_argnums=3)
def keep_clearance(before: Model, after: Model, state: State, character: tuple[bool, ...]) -> State:
    """State with the character as far above what is below it as before. character: (nl,)."""
    height = before.topology.root_height
    if height is None:
        return state
    was, now = (_clearance(model, state, character) for model in (before, after))
    moved = jnp.where((was < FAR) & (now < FAR), was - now, 0.0)
    return state.replace(q=state.q.at[height].add(moved))


def _clearance(model: Model, state: State, character: tuple[bool, ...]) -> Array:
    """Least gap () of a link of the character to what may carry it [m]; FAR without any."""
    slots = contact_slots(model.topology)
    mine = np.append(character, False)
    a, b = mine[slots.link_a], mine[slots.link_b]
    if not (a != b).any():
        return jnp.asarray(FAR, model.mass.dtype)
    found = find_contacts(model, forward_kinematics(model, state.q, state.qd))
    bears = (a != b) & (found.normal[:, 2] * np.where(a, 1.0, -1.0) > UPWARD)
    return -safe_max(-jnp.where(bears, found.gap, FAR))
