"""Symmetry: the primitive before, on the other side of the body."""

from dataclasses import dataclass

from lark import Token, Tree

from controllers.scl.primitive import Primitive
from controllers.scl.reader import Reader
from controllers.scl.trees import place


@dataclass(frozen=True)
class Symmetry(Primitive):
    """`[symm]`: read as the mirror image of the primitive before it, and so never in a Script."""

    keyword = "symm"
    usage = "symmetry reads [symm], with nothing else between the brackets"

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> Primitive:
        if not reader.primitives:
            raise reader.source.error(
                place(tree),
                "there is no primitive before [symm]",
                "[symm] repeats the primitive before it, in the same phase, on the other side",
            )
        before = reader.primitives[-1]
        image = reader.mirror(before, place(tree))
        if image.names() == before.names():
            message = "the primitive before [symm] is its own mirror image"
            reader.warn(place(tree), message, before.twice)
        return image
