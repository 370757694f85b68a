"""Docstrings for the site: plain text with examples; fields documented by the comment behind.

``mass: float  # [kg]`` documents ``mass``; an example that begins with ``>>>`` becomes code.
"""

import ast
import io
import re
import tokenize
from typing import Any

from griffe import Attribute, Docstring, Extension, Object, ObjectNode

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)
ROLE = re.compile(r":\w+:`~?([\w.]+)`")


class PlainDocstrings(Extension):
    """Marks examples as code; a field that has no docstring gets the comment of its last line."""

    def __init__(self) -> None:
        self._comments: dict[str, dict[int, str]] = {}

    def on_instance(self, *, node: ast.AST | ObjectNode, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = EXAMPLE.sub(lambda m: f"```pycon\n{m[0]}\n```", obj.docstring.value)
            obj.docstring.value = ROLE.sub(r"`\1`", text)

    def on_attribute_instance(
        self, *, node: ast.AST | ObjectNode, attr: Attribute, **kwargs: Any
    ) -> None:
        end = getattr(node, "end_lineno", None)
        if attr.docstring is not None or end is None:
            return
        comment = self._of(str(attr.filepath)).get(end)
        if comment:
            attr.docstring = Docstring(comment, parent=attr)

    def _of(self, path: str) -> dict[int, str]:
        if path not in self._comments:
            with open(path, encoding="utf-8") as file:
                tokens = tokenize.generate_tokens(io.StringIO(file.read()).readline)
                self._comments[path] = {
                    token.start[0]: token.string.lstrip("# ")
                    for token in tokens
                    if token.type == tokenize.COMMENT
                    and not token.string.startswith(("# noqa", "# type:"))
                }
        return self._comments[path]
