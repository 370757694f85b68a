"""QPs that are infeasible, degenerate or badly scaled: what comes out, and whether it is true."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.solvers import qp

CHUNK = 500  # of one kind, solved together


def _copied(p, rng):
    for name in "AbGh":
        p[name][:, 1] = p[name][:, 0]


def _dependent(p, rng):
    for name in "Ab":
        p[name][:, 2] = p[name][:, 0] - 2 * p[name][:, 1]


def _contradictory(p, rng):
    p["A"][:, 1] = p["A"][:, 0]
    p["b"][:, 1] = p["b"][:, 0] + rng.exponential(size=len(p["b"]))


def _opposed(p, rng):
    p["G"][:, 1], p["h"][:, 1] = -p["G"][:, 0], rng.normal(size=len(p["h"])) - p["h"][:, 0]


def _crossed(p, rng):
    p["lower"][:, -3] = rng.normal(size=len(p["r"]))
    p["upper"][:, -3] = 0.0


def _fixed(p, rng):
    p["lower"][:, -2:] = p["upper"][:, -2:] = 0.0


def _tight(p, rng):
    p["h"] += rng.exponential(0.3, p["h"].shape) * (p["h"] != -1)


def _flat(p, rng):
    p["J"][:, len(p["J"][0]) // 4 :] = 0


def _scaled(names, power):
    def edit(p, rng):
        for name in names:
            p[name] *= 10.0**power

    return edit


KINDS = {
    "as they are": lambda p, rng: None,
    "rows twice": _copied,
    "dependent equations": _dependent,
    "contradictory equations": _contradictory,
    "opposed inequalities": _opposed,
    "crossed bounds": _crossed,
    "fixed unknowns": _fixed,
    "little or no room": _tight,
    "few tasks": _flat,
    "J, r times 1e6": _scaled(("J", "r"), 6),
    "J, r times 1e-6": _scaled(("J", "r"), -6),
    "A, b, G, h times 1e6": _scaled("AbGh", 6),
    "A, b, G, h times 1e-6": _scaled("AbGh", -6),
    "r times 1e6": _scaled("r", 6),
    "r times 1e-6": _scaled("r", -6),
}


def abuse(problems, count: int) -> list[list[str]]:
    """A row for each kind, ``count`` in all; problems(members, seed) makes ordinary ones.

    False: says solved while float64 says infeasible, while a constraint is missed by over 1e-3 of
    its terms, or while the objective is over 1e-3 of its start above that of float64.
    """
    run = jax.jit(jax.vmap(qp.solve))
    sharp = jax.jit(jax.vmap(lambda p: qp.solve(p, iterations=80)))
    table = []
    for kind, edit in KINDS.items():
        seen, false, broken = np.zeros(4, int), 0, 0
        for seed in range(-(-count // (CHUNK * len(KINDS)))):
            p = {k: v.copy() for k, v in problems(CHUNK, seed).items()}
            edit(p, np.random.default_rng(seed + 10_000))
            made = [qp.QuadraticProgram(**{k: jnp.asarray(v, t) for k, v in p.items()})
                    for t in (jnp.float32, jnp.float64)]  # fmt: skip
            s, exact = run(made[0]), sharp(made[1])
            seen += np.bincount(s.status, minlength=4)
            finite = [np.isfinite(x).reshape(CHUNK, -1).all(axis=1) for x in jax.tree.leaves(s)]
            broken += int((~np.all(finite, axis=0)).sum())
            false += int((_is_false(p, np.asarray(s.x, float), exact) & (s.status == 0)).sum())
        table.append([kind, str(seen.sum()), *map(str, seen), str(broken), str(false)])
    return table


def _is_false(p: dict, x: np.ndarray, exact) -> np.ndarray:
    missed = np.zeros(len(x))
    for rows, bound, sided in ((p["A"], p["b"], False), (p["G"], p["h"], True)):
        off = bound - np.einsum("bij,bj->bi", rows, x)
        off = np.maximum(off, 0) if sided else np.abs(off)
        terms = np.einsum("bij,bj->bi", np.abs(rows), np.abs(x)) + np.abs(bound)
        missed = np.maximum(missed, (off / np.where(terms > 0, terms, 1)).max(axis=1))
    bounded = x[:, x.shape[1] - p["lower"].shape[1] :]
    for off, bound in ((p["lower"] - bounded, p["lower"]), (bounded - p["upper"], p["upper"])):
        size = np.where(np.isfinite(bound), np.abs(bound), 0) + np.abs(x).max(axis=1)[:, None]
        missed = np.maximum(missed, (np.maximum(off, 0) / np.where(size > 0, size, 1)).max(axis=1))

    def objective(x):
        return (np.square(np.einsum("bij,bj->bi", p["J"], x) - p["r"])).sum(axis=1)

    known = np.asarray(exact.status) == qp.SOLVED
    best = objective(np.asarray(exact.x))
    start = np.square(p["r"]).sum(axis=1)
    above = known & (objective(x) - best > 1e-3 * (start + best))
    return (missed > 1e-3) | above | (np.asarray(exact.status) == qp.INFEASIBLE)
