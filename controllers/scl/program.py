"""Tables of a script, one row a phase, and one vector of its numbers.

Tables contain positions in the vector, never numbers, so scripts that differ in numbers alone share
one Program, one compiled function and one vmap. Position ``zero`` (the vector's length) stands for
a number the script left out.
"""

from dataclasses import dataclass, fields

import numpy as np

from controllers.scl.ast import (
    IK,
    PD,
    BalanceFeedback,
    GravityCompensation,
    Relax,
    Script,
    VirtualForce,
)
from controllers.scl.errors import ScriptError, SourceText
from controllers.virtual_forces import base_link, chain
from jaxsim.model.topology import INDEX, WORLD, Topology

# how a joint's target is found
INHERIT, JOINT, CHILD, PARENT, RELAX, IK_FIRST, IK_SECOND = range(7)
# what of a link's contact a transition waits for
NO_CONTACT, TOUCHING, ESTABLISHED, LOST, CHANGED = range(5)
EVENTS = {"touching": TOUCHING, "established": ESTABLISHED, "lost": LOST, "changed": CHANGED}


@dataclass(frozen=True, eq=False)
class ScriptProgram:
    """Tables of a script, a static argument to jit.

    P phases, J script joints, V virtual forces, K ik chains, G targets a chain. Equal, and of equal
    hash, where all tables are.
    """

    phase_names: tuple[str, ...]
    count: int  # how many numbers the script has
    dofs: np.ndarray  # (J,) freedom of each script joint
    child: np.ndarray  # (J,) its links
    parent: np.ndarray  # (J,)
    mode: np.ndarray  # (P, J) how the target is found
    angle: np.ndarray  # (P, J) position of the angle [deg]
    duration: np.ndarray  # (P, J) position of the time [s]
    strength: np.ndarray  # (P, J) position of the relaxation factor
    vf_on: np.ndarray  # (P, V) link of application
    vf_chain: np.ndarray  # (P, V, nv) zero rows: no force
    vf_force: np.ndarray  # (P, V, 2) positions of the force [N], or of kp, kd
    vf_balance: np.ndarray  # (P, V) bool: a balance feedback
    feet: np.ndarray  # (P, nl) bool: bases of the balance feedback
    gc_base: np.ndarray  # (P, nv) mean link_dofs of the bases of gravity compensation
    gc_on: np.ndarray  # (P,) bool
    ik_joints: np.ndarray  # (P, K, 3) script joints: first, second, end; -1: no chain
    ik_relative: np.ndarray  # (P, K) joint (node) whose place at the start is the origin
    ik_target: np.ndarray  # (P, K, G, 2) positions of the targets [m]
    ik_count: np.ndarray  # (P, K) number of targets
    ik_duration: np.ndarray  # (P, K)
    after: np.ndarray  # (P,) position of the transition's time [s]
    timed: np.ndarray  # (P,) bool
    event: np.ndarray  # (P,) contact event or NO_CONTACT
    all_links: np.ndarray  # (P,) bool: all of the links, not any
    links: np.ndarray  # (P, nl) bool
    target: np.ndarray  # (P,) the phase that follows
    last: np.ndarray  # (P,) bool: no transition

    @property
    def _key(self) -> tuple:
        values = [getattr(self, field.name) for field in fields(self)]
        return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other) -> bool:
        return isinstance(other, ScriptProgram) and self._key == other._key


def compile_script(script: Script, top: Topology) -> ScriptProgram:
    """Tables of a parsed script for a planar model.

    Raises ScriptError (file, line, column) where the script asks for what the body cannot do: a
    virtual force whose joint is not beside its link's chain, ik on a joint that ends no limb of two
    links.
    """
    if not top.planar:
        raise ValueError("scripts drive planar models only")
    joints = [top.joint_names[j] for j in top.actuated_joints]
    children = [top.joint_link[j] for j in top.actuated_joints]
    zero = len(script.numbers)
    P, nl, nv = len(script.phases), top.n_links, top.nv
    rows = [_phase_rows(script, phase, top, joints, zero) for phase in script.phases]
    V = max([1, *(len(r.forces) for r in rows)])
    K = max([1, *(len(r.chains) for r in rows)])
    G = max([1, *(len(c.targets) for r in rows for c in r.chains)])
    t = dict(
        mode=np.stack([r.mode for r in rows]),
        angle=np.stack([r.angle for r in rows]),
        duration=np.stack([r.duration for r in rows]),
        strength=np.stack([r.strength for r in rows]),
        vf_on=np.zeros((P, V), int),
        vf_chain=np.zeros((P, V, nv)),
        vf_force=np.full((P, V, 2), zero),
        vf_balance=np.zeros((P, V), bool),
        feet=np.zeros((P, nl), bool),
        gc_base=np.zeros((P, nv)),
        gc_on=np.zeros(P, bool),
        ik_joints=np.full((P, K, 3), -1),
        ik_relative=np.zeros((P, K), int),
        ik_target=np.full((P, K, G, 2), zero),
        ik_count=np.ones((P, K), int),
        ik_duration=np.full((P, K), zero),
        after=np.full(P, zero),
        timed=np.zeros(P, bool),
        event=np.full(P, NO_CONTACT),
        all_links=np.zeros(P, bool),
        links=np.zeros((P, nl), bool),
        target=np.arange(P),
        last=np.ones(P, bool),
    )
    for p, (row, phase) in enumerate(zip(rows, script.phases, strict=True)):
        for k, (on, along, positions, balance, base) in enumerate(row.forces):
            t["vf_on"][p, k], t["vf_chain"][p, k] = on, along
            t["vf_force"][p, k], t["vf_balance"][p, k] = positions, balance
            t["feet"][p, base] |= balance
        if row.gravity_bases:
            t["gc_on"][p] = True
            t["gc_base"][p] = np.mean([top.link_dofs[b] for b in row.gravity_bases], axis=0)
        for k, c in enumerate(row.chains):
            t["ik_joints"][p, k], t["ik_relative"][p, k] = c.joints, c.relative
            t["ik_target"][p, k, : len(c.targets)] = c.targets
            t["ik_count"][p, k], t["ik_duration"][p, k] = len(c.targets), c.duration
        if phase.transition is not None:
            _transition_row(t, p, phase.transition, top)
    return ScriptProgram(
        phase_names=tuple(phase.name for phase in script.phases),
        count=zero,
        dofs=top.actuated_dofs.astype(INDEX),
        child=np.array(children, INDEX),
        parent=np.array([top.link_parent[c] for c in children], INDEX),
        **t,
    )


@dataclass(frozen=True)
class _Chain:
    joints: tuple[int, int, int]  # script joints: first, second, end
    relative: int
    targets: list[tuple[int, int]]
    duration: int


class _PhaseRows:
    def __init__(self, n_joints: int, zero: int):
        self.mode = np.full(n_joints, INHERIT)
        self.angle = np.full(n_joints, zero)
        self.duration = np.full(n_joints, zero)
        self.strength = np.full(n_joints, zero)
        self.forces: list[tuple[int, np.ndarray, tuple[int, int], bool, int]] = []
        self.gravity_bases: list[int] = []
        self.chains: list[_Chain] = []


def _phase_rows(script: Script, phase, top: Topology, joints: list[str], zero: int) -> _PhaseRows:
    """Positions and modes of one phase; of primitives on one joint the later one counts."""
    row = _PhaseRows(len(joints), zero)
    modes = {"joint": JOINT, "child": CHILD, "parent": PARENT}
    for primitive in phase.primitives:
        if isinstance(primitive, PD):
            for target in primitive.targets:
                for name in target.joints:
                    j = joints.index(name)
                    row.mode[j], row.angle[j] = modes[target.frame], target.angle.index
                    row.duration[j] = zero if primitive.time is None else primitive.time.index
        elif isinstance(primitive, Relax):
            for name in primitive.joints:
                j = joints.index(name)
                row.mode[j], row.strength[j] = RELAX, primitive.strength.index
        elif isinstance(primitive, VirtualForce):
            row.forces.append(_force_row(script, primitive, top))
        elif isinstance(primitive, GravityCompensation):
            row.gravity_bases.append(top.joint_link[top.joint(primitive.by)])
        elif isinstance(primitive, IK):
            for name in primitive.on:
                limb = _chain_row(script, primitive, name, top, joints, zero)
                row.mode[limb.joints[0]], row.mode[limb.joints[1]] = IK_FIRST, IK_SECOND
                row.chains.append(limb)
    return row


def _force_row(script: Script, primitive: VirtualForce, top: Topology):
    try:
        base = base_link(top, primitive.on, primitive.by)
    except ValueError as error:
        raise _error(script, primitive, str(error)) from None
    on = top.link(primitive.on)
    force = primitive.force
    if isinstance(force, BalanceFeedback):
        return on, chain(top, on, base), (force.kp.index, force.kd.index), True, base
    return on, chain(top, on, base), (force[0].index, force[1].index), False, base


def _chain_row(script: Script, primitive: IK, name: str, top: Topology, joints, zero) -> _Chain:
    """The two-link limb that ends at joint ``name`` (a wrist or an ankle)."""
    limb = _limb(top, name, joints)
    if limb is None:
        ends = [joint for joint in joints if _limb(top, joint, joints)]
        message = (
            f"ik moves a limb of two links, whose end is a wrist or an ankle; '{name}' ends none"
        )
        hint = f"joints that end one: {', '.join(ends) or 'none'}"
        raise _error(script, primitive, message, hint)
    return _Chain(
        joints=tuple(joints.index(top.joint_names[j]) for j in limb),
        relative=top.joint(primitive.rel),
        targets=[(x.index, y.index) for x, y in primitive.targets],
        duration=zero if primitive.time is None else primitive.time.index,
    )


def _limb(top: Topology, name: str, joints: list[str]) -> tuple[int, int, int] | None:
    """Joints first, second and end of the limb that ends at joint ``name``, all of the script.

    Nothing else may hang on its two links: turning them would move more than the end.
    """
    end = top.joint(name)
    second = top.joint_parent[end]
    first = top.joint_parent[second] if second != WORLD else WORLD
    if first == WORLD or any(top.joint_names[j] not in joints for j in (first, second, end)):
        return None
    branches = top.joint_parent.count(first) > 1 or top.joint_parent.count(second) > 1
    return None if branches else (first, second, end)


def _transition_row(t: dict, p: int, transition, top: Topology) -> None:
    t["last"][p], t["target"][p] = False, transition.target
    if transition.time is not None:
        t["timed"][p], t["after"][p] = True, transition.time.index
    if transition.contact is not None:
        t["event"][p] = EVENTS[transition.contact.event]
        t["all_links"][p] = transition.contact.which == "all"
        for name in transition.contact.links:
            t["links"][p, top.link(name)] = True


def _error(script: Script, primitive, message: str, hint: str = "") -> ScriptError:
    """A ScriptError at a primitive's place in the text."""
    return SourceText(script.source, script.file).error(primitive.span.start, message, hint)
