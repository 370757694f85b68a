"""Kinds of collision shapes: a module each, whose ``KIND`` is the record of all that is its own.

The rest of jaxsim asks the record and names no kind, but for the routines of pairs of shapes
(``collision.families``) and the drawing of the page (``viewer/player/kinds.js``).
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

from jaxsim.model.kinds.kind import Geom, ShapeKind

__all__ = ["KINDS", "SOLIDS", "Geom", "ShapeKind"]


def _records() -> list[ShapeKind]:
    """Records of the modules of this package, from balls to ground, the simplest first."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    records = [module.KIND for module in modules if hasattr(module, "KIND")]
    return sorted(records, key=lambda kind: (kind.rank, len(kind.numbers), kind.name))


KINDS: dict[str, ShapeKind] = {kind.name: kind for kind in _records()}


class _Solids(Mapping[str, ShapeKind]):
    """Kinds of ``KINDS`` that bodies may have, at the time of the look-up."""

    def __getitem__(self, name: str) -> ShapeKind:
        if KINDS[name].world_only:
            raise KeyError(name)
        return KINDS[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in KINDS.items() if not kind.world_only)

    def __len__(self) -> int:
        return sum(1 for _ in self)


SOLIDS = _Solids()
