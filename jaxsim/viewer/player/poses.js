// Where links and shapes are at a time.

function frameAt(t) { // the last frame that is not after t
  let lo = 0, hi = frames - 1;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (time[mid] <= t + 1e-6) lo = mid; else hi = mid - 1;
  }
  return lo;
}

// per link {p, R}, or null; f of the way from frame i to the next
function poses(i, f, positions = arrays.link_pos, quats = arrays.link_quat) {
  const j = Math.min(i + 1, frames - 1), out = [];
  for (let l = 0; l < linkCount; l++) {
    const a = i * linkCount + l, b = j * linkCount + l, p = [0, 0, 0], q = [0, 0, 0, 0];
    for (let k = 0; k < 3; k++) {
      p[k] = positions[3 * a + k];
      if (f > 0) p[k] += f * (positions[3 * b + k] - p[k]);
    }
    const qa = quats.subarray(4 * a, 4 * a + 4), qb = quats.subarray(4 * b, 4 * b + 4);
    const sign = qa[0] * qb[0] + qa[1] * qb[1] + qa[2] * qb[2] + qa[3] * qb[3];
    const share = sign < 0 ? -f : f; // q and -q are one rotation
    for (let k = 0; k < 4; k++) q[k] = (1 - f) * qa[k] + share * qb[k];
    const R = matrix(q);
    out.push(R && finite(p) ? { p, R } : null);
  }
  return out;
}

const WORLD = { p: [0, 0, 0], R: matrix([1, 0, 0, 0]) };
const shapes = data.shapes.map((s) => {
  const R = matrix(s.quat);
  return { ...s, axes: [0, 1, 2].map((j) => column(R, j)),
    part: s.link < 0 ? "surroundings" : data.links[s.link].part };
});
const bare = data.links.map((_, l) => l).filter((l) => !shapes.some((s) => s.link === l));
const planes = shapes.filter((s) => !KINDS[s.kind]);

function placed(s, links) { // {p, axes} in the world, or null
  const L = s.link < 0 ? WORLD : links[s.link];
  if (!L) return null;
  return { p: along(turn(L.R, s.pos), 1, L.p), axes: s.axes.map((a) => turn(L.R, a)) };
}

// of a box: an axis, its sign, and which of the corners, seen from outside against the clock
const FACES = [[0, 1, [1, 3, 7, 5]], [0, -1, [0, 4, 6, 2]], [1, 1, [2, 6, 7, 3]],
  [1, -1, [0, 1, 5, 4]], [2, 1, [4, 5, 7, 6]], [2, -1, [0, 2, 3, 1]]];

function corners(at, h) { // of a box: bit k of the number is the sign along axis k
  const out = [];
  for (let i = 0; i < 8; i++) {
    let p = at.p;
    for (let k = 0; k < 3; k++) p = along(p, (i >> k) & 1 ? h[k] : -h[k], at.axes[k]);
    out.push(p);
  }
  return out;
}
