"""Typed access to the syntax tree."""

from lark import Token, Tree


def subtrees(tree: Tree[Token], *kinds: str) -> list[Tree[Token]]:
    """The children that are trees, of the named rules or of all, in the order of the text."""
    found = [child for child in tree.children if isinstance(child, Tree)]
    return [child for child in found if child.data in kinds] if kinds else found


def subtree(tree: Tree[Token], *kinds: str) -> Tree[Token]:
    """The first child of one of the named rules; the grammar ensures that there is one."""
    return subtrees(tree, *kinds)[0]


def words(tree: Tree[Token], *kinds: str) -> list[Token]:
    """The children that are words, of the named kinds or of all, in the order of the text."""
    found = [child for child in tree.children if isinstance(child, Token)]
    return [child for child in found if child.type in kinds] if kinds else found


def place(item: Tree[Token] | Token) -> int:
    """The offset at which a token, or the text of a tree, begins."""
    return (item.start_pos or 0) if isinstance(item, Token) else item.meta.start_pos


def extent(item: Tree[Token] | Token) -> tuple[int, int]:
    """The offsets at which a token, or the text of a tree, begins and ends."""
    end = (item.end_pos or 0) if isinstance(item, Token) else item.meta.end_pos
    return place(item), end


def name_list(names: list[Token]) -> str:
    """Names for a label, the tail of a long list left out."""
    return ", ".join(names if len(names) < 5 else [*names[:3], "..."])
