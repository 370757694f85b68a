"""Colours of the page, the film strip and the plots, each stated once.

The page has a light and a dark set and takes the one that the reader's system asks for; pictures
are light.
"""

from __future__ import annotations

from jaxsim.io.motion import Motion
from jaxsim.viewer.series import side_of

__all__ = ["DARK", "LIGHT", "css_variables", "page_colours", "part_of"]

LIGHT = {
    # the page around the pictures
    **{"page": "#f4f5f7", "card": "#ffffff", "line": "#d9dde3", "text": "#1d232b"},
    **{"soft": "#5d6875", "accent": "#1f5fbf", "warn": "#a3281f", "warn-soft": "#fbe6e3"},
    # behind what moves
    **{"sky": "#fbfcfd", "ground": "#e6e9ed", "grid": "#ccd2d9", "horizon": "#7d8894"},
    # the parts of `part_of`, their edges, and how dark shade is
    **{"left": "#78a9e0", "middle": "#5a87bd", "right": "#37557a"},
    **{"surroundings": "#d3bd97", "loose": "#d9a03f", "driven": "#7aa874"},
    **{"edge": "#1b2735", "shade": "#0b1420"},
    # marks
    **{"force": "#d1352b", "com": "#1d232b", "grip": "#8a2fb0", "ghost": "#c2577f"},
    # zones of a gauge: below its first threshold, between, above the last
    **{"below": "#4aa36c", "between": "#e0b020", "above": "#d1352b"},
}
DARK = {
    **{"page": "#14171b", "card": "#1c2026", "line": "#323944", "text": "#e7eaee"},
    **{"soft": "#9aa5b2", "accent": "#7fb2ff", "warn": "#ffb4ab", "warn-soft": "#3d1f1c"},
    **{"sky": "#181c21", "ground": "#242a31", "grid": "#37404a", "horizon": "#8793a1"},
    **{"left": "#8fbdf2", "middle": "#5f8fc6", "right": "#3a5a80"},
    **{"surroundings": "#8a7a5c", "loose": "#c9933a", "driven": "#6f9d6a"},
    **{"edge": "#0a0e13", "shade": "#000000"},
    **{"force": "#ff6b5e", "com": "#f3f5f7", "grip": "#d08cf0", "ghost": "#e08aaa"},
    **{"below": "#55ad78", "between": "#e3bb45", "above": "#ff6b5e"},
}

LIGHT_PHASES = (
    *("#4f83cc", "#d98e2b", "#4aa36c", "#b65fb0", "#cf5a52", "#2f9ea3", "#8f7a3c", "#7b6fd0"),
)
DARK_PHASES = (
    *("#5b8fd6", "#d9933a", "#55ad78", "#bd6db8", "#d5675f", "#3fa9ae", "#a08b4a", "#8a7fdb"),
)
LIGHT_LINES = ("#1f5fbf", "#c2571a", "#2b8a55", "#9a45a0", "#8a6d1f", "#147f88")
DARK_LINES = ("#7fb2ff", "#f0985c", "#68c793", "#d58fda", "#d3b45f", "#5cc6cd")


def part_of(motion: Motion, link: int) -> str:
    """Category of a link in drawings, which is also the name of its colour.

    "surroundings" for link -1, the world; "loose" and "driven" for links of the roles "prop" and
    "driven"; "left", "right" or "middle" for links of a character, by their names.
    """
    if link < 0:
        return "surroundings"
    role = motion.link_roles[link]
    if role in ("character", "companion"):
        return side_of(motion.link_names[link].rpartition(".")[2])[0] or "middle"
    return {"prop": "loose", "driven": "driven"}[role]


def css_variables() -> str:
    """CSS that states the colours as variables, `--page` for "page", light or dark."""

    def stated(colours: dict[str, str]) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in colours.items())

    return (
        f":root {{ color-scheme: light dark; {stated(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {stated(DARK)} }} }}\n"
    )


def page_colours() -> dict[str, dict[str, object]]:
    """Colours of the page's script: "light" and "dark", each name -> "#rrggbb".

    The lists "phases" and "lines" are for the k-th phase and line, in turn.
    """
    return {
        "light": {**LIGHT, "phases": LIGHT_PHASES, "lines": LIGHT_LINES},
        "dark": {**DARK, "phases": DARK_PHASES, "lines": DARK_LINES},
    }
