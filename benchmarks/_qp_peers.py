"""Other QP solvers, in an environment of their own. Run by ``qp.py``; imports nothing of jaxsim.

python benchmarks/_qp_peers.py FOLDER OPTIONS   problems.npz there; writes peers.npz, says JSON
"""

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np


def dense(p: dict) -> dict:
    """Q, q, A, b, G, h of x^T Q x / 2 + q x, A x = b, G x <= h: bounds that any member has are
    rows, idle where a member has none. Their tolerances are absolute: the objective is divided by
    ``size``, the largest |q|."""
    J, n = p["J"], p["J"].shape[2]
    eye = np.eye(n)
    ceiling = p.get("ceiling", p["h"][:, :0])
    last = p["G"][:, p["h"].shape[1] - ceiling.shape[1] :]
    G, h = [-p["G"], last], [-p["h"], ceiling]
    for bound, sign in ((p["lower"], -1), (p["upper"], 1)):
        which = np.isfinite(bound).any(axis=0)
        there = np.isfinite(bound[:, which])
        rows = eye[n - bound.shape[1] :][which]  # of the last unknowns
        G.append(sign * rows[None] * there[..., None])
        h.append(np.where(there, sign * bound[:, which], 1.0))
    Q = np.einsum("bij,bik->bjk", J, J)
    used = np.concatenate([J, p["A"], p["G"]], axis=1).any(axis=1)
    Q = Q + eye * ~used[:, None, :]  # as ours: what nothing depends on is 0
    q = -np.einsum("bij,bi->bj", J, p["r"])
    size = np.abs(q).max(axis=1)
    Q, q = Q / size[:, None, None], q / size[:, None]
    G, h = np.concatenate(G, axis=1), np.concatenate(h, axis=1)
    return dict(size=size, Q=Q, q=q, A=p["A"], b=p["b"], G=G, h=h)


def jax_solvers():
    """Name to a function of (Q, q, A, b, G, h) of one member: x, and whether it says it is done."""
    import jaxopt
    import qpax
    from qpax.explicit.pdip import LinearSolver

    def of_qpax(backend):
        def one(Q, q, A, b, G, h):
            x, *_, converged, _ = qpax.solve_qp(
                Q, q, A, b, G, h, solver_tol=1e-4, linear_solver=backend
            )
            return x, converged == 1

        return one

    osqp = jaxopt.OSQP(eq_qp_solve="lu", tol=1e-3, maxiter=1000)

    def of_osqp(Q, q, A, b, G, h):
        out = osqp.run(params_obj=(Q, q), params_eq=(A, b), params_ineq=(G, h))
        return out.params.primal, out.state.status == 1

    return {
        "qpax, Cholesky": of_qpax(LinearSolver.CHOLESKY),
        "qpax, QR": of_qpax(LinearSolver.QR),
        "jaxopt OSQP, LU": of_osqp,
    }


def timed_jax(problems: dict, options: dict, out: dict, say: dict):
    import jax
    import jax.numpy as jnp
    import qpax

    given = [jnp.asarray(problems[k], jnp.float32) for k in ("Q", "q", "A", "b", "G", "h")]
    weight = jnp.asarray(options["weight"], jnp.float32)
    count = len(given[0])

    def grown(batch):
        return [jnp.tile(x, (-(-batch // count), *[1] * (x.ndim - 1)))[:batch] for x in given]

    def gradient(Q, q, A, b, G, h):
        def number(q):
            return jnp.sum(weight * qpax.solve_qp_primal(Q, q, A, b, G, h, target_kappa=1e-5))

        return jax.grad(number)(q)

    runs = {name: jax.vmap(one) for name, one in jax_solvers().items()}
    runs["qpax, Cholesky, with gradient"] = jax.vmap(gradient)
    for name, run in runs.items():
        say[name] = {"us": {}}
        most = 256 if "OSQP" in name else options["batches"][-1]
        for batch in sorted({*options["batches"], count}):
            if batch > most:
                continue
            members = grown(batch)
            begun = time.perf_counter()
            program = jax.jit(run).lower(*members).compile()
            compiled = time.perf_counter() - begun
            begun = time.perf_counter()
            found = jax.block_until_ready(program(*members))
            seconds, tries = time.perf_counter() - begun, 0
            while tries < (options["repeats"] if seconds < 5 else 0):
                begun = time.perf_counter()
                jax.block_until_ready(program(*members))
                seconds, tries = min(seconds, time.perf_counter() - begun), tries + 1
            say[name]["us"][batch] = 1e6 * seconds / batch
            if batch == count:
                say[name]["compile"] = compiled
                if "gradient" in name:
                    out[name] = np.asarray(found) / problems["size"][:, None]
                else:
                    out[name], done = map(np.asarray, found)
                    say[name]["done"] = int(done.sum())
            print(name, batch, say[name]["us"][batch], file=sys.stderr, flush=True)


def timed_loops(problems: dict, options: dict, out: dict, say: dict):
    """Solvers in C++ and Rust, float64, one member after the other from Python."""
    import clarabel
    import proxsuite
    import quadprog
    from scipy.sparse import csc_matrix, triu

    def prox(tolerance):
        def one(Q, q, A, b, G, h):
            solver = proxsuite.proxqp.dense.QP(len(q), len(b), len(h))
            solver.settings.eps_abs = tolerance
            solver.settings.max_iter = 1000
            solver.init(Q, q, A, b, G, np.full(len(h), -1e20), h)
            solver.solve()
            done = solver.results.info.status == proxsuite.proxqp.PROXQP_SOLVED
            return np.array(solver.results.x), done

        return one

    def interior(Q, q, A, b, G, h):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h))]
        matrix = csc_matrix(np.concatenate([A, G]))
        found = clarabel.DefaultSolver(
            csc_matrix(triu(Q)), q, matrix, np.concatenate([b, h]), cones, settings
        ).solve()
        return np.array(found.x), str(found.status) == "Solved"

    def active_set(Q, q, A, b, G, h):
        s = 1 / np.sqrt(np.diag(Q))  # it takes nothing but a matrix that is well scaled
        real = G.any(axis=1)
        C, d = np.concatenate([A, -G[real]]) * s, np.concatenate([b, -h[real]])
        length = np.linalg.norm(C, axis=1)
        length = np.where(length > 0, length, 1.0)
        x = quadprog.solve_qp(
            Q * s * s[:, None], -q * s, (C / length[:, None]).T, d / length, len(b)
        )[0]
        return s * x, True

    for name, one in {
        "quadprog": active_set,
        "ProxQP, 1e-5": prox(1e-5),
        "ProxQP, 1e-9": prox(1e-9),
        "Clarabel": interior,
    }.items():
        members = list(zip(*(np.ascontiguousarray(problems[k]) for k in "QqAbGh")))
        best = np.inf
        for _ in range(max(1, min(options["repeats"], 3))):
            begun = time.perf_counter()
            found = [attempt(one, member) for member in members]
            best = min(best, time.perf_counter() - begun)
        out[name] = np.stack([x for x, _ in found])
        say[name] = {
            "us": {1: 1e6 * best / len(members)},
            "compile": 0.0,
            "done": int(sum(done for _, done in found)),
        }
        print(name, say[name]["us"], file=sys.stderr, flush=True)


def attempt(one, member):
    try:
        return one(*member)
    except Exception:
        return np.full(len(member[1]), np.nan), False


def main(folder: Path, options: dict) -> None:
    os.sched_setaffinity(0, options["cores"])
    problems = dense(dict(np.load(folder / "problems.npz")))
    out: dict = {}
    say: dict = {}
    timed_loops(problems, options, out, say)
    timed_jax(problems, options, out, say)
    np.savez(folder / "peers.npz", **out)
    packages = ("jax", "qpax", "jaxopt", "proxsuite", "clarabel", "quadprog")
    say["versions"] = ", ".join(f"{p} {version(p)}" for p in packages)
    print(json.dumps(say))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
