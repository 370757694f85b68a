"""Mirror images of primitives, for `[symm]` and mirrored phases.

Source: Shen's thesis, sections 4.2 and 4.3.
"""

from dataclasses import replace

from controllers.scl.ast import IK, PD, GravityCompensation, Primitive, Relax, VirtualForce
from controllers.scl.names import Vocabulary


def mirror_primitive(primitive: Primitive, vocabulary: Vocabulary) -> Primitive:
    """Mirror a primitive to the other side of the body, with the same Number objects.

    Raises ValueError for a joint or link with a side but without a counterpart.
    """

    def image(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(vocabulary.mirror(name) for name in names)

    match primitive:
        case PD():
            targets = tuple(replace(t, joints=image(t.joints)) for t in primitive.targets)
            return replace(primitive, targets=targets)
        case VirtualForce():
            on, by = image((primitive.on, primitive.by))
            return replace(primitive, on=on, by=by)
        case IK():
            return replace(primitive, on=image(primitive.on), rel=vocabulary.mirror(primitive.rel))
        case Relax():
            return replace(primitive, joints=image(primitive.joints))
        case GravityCompensation():
            return replace(primitive, by=vocabulary.mirror(primitive.by))


def parts(primitive: Primitive) -> tuple[frozenset[str], ...]:
    """Joints and links of a primitive, to compare with its mirror image."""
    match primitive:
        case PD():
            return tuple(frozenset(target.joints) for target in primitive.targets)
        case VirtualForce():
            return frozenset({primitive.on}), frozenset({primitive.by})
        case IK():
            return frozenset(primitive.on), frozenset({primitive.rel})
        case Relax():
            return (frozenset(primitive.joints),)
        case GravityCompensation():
            return (frozenset({primitive.by}),)
