"""Tables of a script, one row a phase, and one vector of its numbers.

Tables contain positions in the vector, never numbers, so scripts that differ in numbers alone share
one Program, one compiled function and one vmap. Position ``zero`` (the vector's length) stands for
a number the script left out.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from controllers.scl.ast import Transition
from controllers.scl.compiler import Compiler
from controllers.scl.primitive import Primitive
from controllers.scl.primitives.registry import PRIMITIVES
from controllers.scl.script import Script
from jaxsim.model.topology import INDEX, Topology

INHERIT = -1  # setter of a joint whose target no primitive of the phase sets
# what of a link's contact a transition waits for
NO_CONTACT, TOUCHING, ESTABLISHED, LOST, CHANGED = range(5)
EVENTS = {"touching": TOUCHING, "established": ESTABLISHED, "lost": LOST, "changed": CHANGED}


@dataclass(frozen=True, eq=False)
class ScriptProgram:
    """Tables of a script, a static argument to jit.

    P phases, J script joints, nl links. Equal, and of equal hash, where all tables are.
    """

    phase_names: tuple[str, ...]
    count: int  # how many numbers the script has
    nv: int  # degrees of freedom of the model
    dofs: np.ndarray  # (J,) freedom of each script joint
    child: np.ndarray  # (J,) its links
    parent: np.ndarray  # (J,)
    kinds: tuple[type[Primitive], ...]  # primitives that the script has
    tables: tuple[Any, ...]  # the named tuple of arrays of each of them
    setter: np.ndarray  # (P, J) which of the kinds sets the target, or INHERIT
    after: np.ndarray  # (P,) position of the transition's time [s]
    timed: np.ndarray  # (P,) bool
    event: np.ndarray  # (P,) contact event or NO_CONTACT
    all_links: np.ndarray  # (P,) bool: all of the links, not any
    links: np.ndarray  # (P, nl) bool
    target: np.ndarray  # (P,) the phase that follows
    last: np.ndarray  # (P,) bool: no transition

    @property
    def _key(self) -> tuple:
        return tuple(_hashable(getattr(self, each.name)) for each in fields(self))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other) -> bool:
        return isinstance(other, ScriptProgram) and self._key == other._key


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    return tuple(map(_hashable, value)) if isinstance(value, tuple) else value


def compile_script(script: Script, top: Topology) -> ScriptProgram:
    """Tables of a parsed script for a planar model.

    Raises ScriptError (file, line, column) where the script asks for what the body cannot do: a
    virtual force whose joint is not beside its link's chain, ik on a joint that ends no limb of two
    links.
    """
    if not top.planar:
        raise ValueError("scripts drive planar models only")
    compiler = Compiler(top, len(script.numbers), script.source, script.file)
    rows = [
        [(type(p), row) for p in phase.primitives for row in p.rows(compiler)]
        for phase in script.phases
    ]
    present = {kind for phase in rows for kind, _ in phase}
    kinds = tuple(kind for kind in PRIMITIVES if kind in present)
    tables = tuple(
        kind.table([[row for each, row in phase if each is kind] for phase in rows], compiler)
        for kind in kinds
    )
    setter = np.full((len(rows), len(compiler.joints)), INHERIT)
    for p, phase in enumerate(rows):
        for kind, row in phase:  # of primitives on one joint the later one counts
            for joint in kind.joints_of(row):
                setter[p, joint] = kinds.index(kind)
    children = [top.joint_link[j] for j in top.actuated_joints]
    return ScriptProgram(
        phase_names=tuple(phase.name for phase in script.phases),
        count=compiler.zero,
        nv=top.nv,
        dofs=top.actuated_dofs.astype(INDEX),
        child=np.array(children, INDEX),
        parent=np.array([top.link_parent[c] for c in children], INDEX),
        kinds=kinds,
        tables=tables,
        setter=setter,
        **_transitions(script, compiler),
    )


def _transitions(script: Script, compiler: Compiler) -> dict[str, np.ndarray]:
    """Arrays of the transitions after each phase, by their names in the program."""
    phases, top = script.phases, compiler.top
    P = len(phases)
    t = dict(
        after=np.full(P, compiler.zero),
        timed=np.zeros(P, bool),
        event=np.full(P, NO_CONTACT),
        all_links=np.zeros(P, bool),
        links=np.zeros((P, top.n_links), bool),
        target=np.arange(P),
        last=np.ones(P, bool),
    )
    for p, phase in enumerate(phases):
        if phase.transition is not None:
            _transition_row(t, p, phase.transition, top)
    return t


def _transition_row(t: dict, p: int, transition: Transition, top: Topology) -> None:
    t["last"][p], t["target"][p] = False, transition.target
    if transition.time is not None:
        t["timed"][p], t["after"][p] = True, transition.time.index
    if transition.contact is not None:
        t["event"][p] = EVENTS[transition.contact.event]
        t["all_links"][p] = transition.contact.which == "all"
        for name in transition.contact.links:
            t["links"][p, top.link(name)] = True
