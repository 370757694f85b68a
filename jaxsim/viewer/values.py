"""Values of a summary as text for readers."""

from typing import Any

import numpy as np


def plain_text(value: Any) -> str:
    """Value as text: five digits of a float, yes or no, a dash for None; lists by their entries."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain_text, value)) or "none"
    return str(value)
