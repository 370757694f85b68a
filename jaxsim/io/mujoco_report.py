"""Report of a reader: omissions and changes, as lines that name the elements concerned."""

from typing import Any

SHOWN = 5  # names in a line


class Report:
    """Names under headings, in the order in which these first appear."""

    def __init__(self):
        self._lacks: dict[str, list[str]] = {}
        self._notes: dict[str, list[str]] = {}

    def lacks(self, what: str, name: str = "") -> None:
        """Report a feature that the simulator lacks: the motion would differ."""
        _add(self._lacks, what, name)

    def note(self, what: str, name: str = "") -> None:
        """Report a feature that is converted, or ignored without effect on the motion."""
        _add(self._notes, what, name)

    def add(self, other: "Report") -> None:
        """Add the entries of another report."""
        for mine, theirs in ((self._lacks, other._lacks), (self._notes, other._notes)):
            for what, names in theirs.items():
                for name in names or [""]:
                    _add(mine, what, name)

    def unsupported(self) -> tuple[str, ...]:
        """Lines on features that the simulator lacks."""
        return _lines(self._lacks)

    def notes(self) -> tuple[str, ...]:
        """Lines on features that are converted or ignored."""
        return _lines(self._notes)


def _add(entries: dict[str, list[str]], what: str, name: str) -> None:
    names = entries.setdefault(what, [])
    if name and name not in names:
        names.append(name)


def _lines(entries: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{what}: {_some(names)}" if names else what for what, names in entries.items())


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def element_names(mujoco: Any, mj: Any, kind: str, made: list[str]) -> list[str]:
    """Distinct names of all bodies, joints, geoms ...; ``made`` for those without one."""
    type_ = getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
    file_names = [mujoco.mj_id2name(mj, type_, i) or "" for i in range(len(made))]
    taken = set(file_names)
    names = []
    for name, base in zip(file_names, made):
        count = 1
        while not name:
            tried = base if count == 1 else f"{base}_{count}"
            name = "" if tried in taken else tried
            count += 1
        taken.add(name)
        names.append(name)
    return names
