// Vectors and rotations as plain arrays, and numbers as a reader wants them.

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const along = (p, s, d) => [p[0] + s * d[0], p[1] + s * d[1], p[2] + s * d[2]];
const clamp = (v, lo, hi) => Math.min(Math.max(v, lo), hi);
const finite = (p) => Number.isFinite(p[0] + p[1] + p[2]);

function matrix(q) { // rows of the rotation; null where the quaternion is not usable
  const n = Math.hypot(q[0], q[1], q[2], q[3]);
  if (!(n > 1e-6)) return null;
  const w = q[0] / n, x = q[1] / n, y = q[2] / n, z = q[3] / n;
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]];
}

const turn = (R, v) => [dot(R[0], v), dot(R[1], v), dot(R[2], v)];
const column = (R, j) => [R[0][j], R[1][j], R[2][j]];

function niceStep(smallest) {
  const power = 10 ** Math.floor(Math.log10(smallest));
  return [1, 2, 5, 10].find((m) => m * power >= smallest * 0.999) * power;
}

const decimals = (step) => clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 3);
const number = (v, step) => (Math.abs(v) < step * 1e-6 ? 0 : v).toFixed(decimals(step))
  .replace("-", "\u2212");
const opposite = (n) => [-n[0], -n[1], -n[2]];

function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

function unit(v) {
  const n = Math.hypot(v[0], v[1], v[2]);
  return n > 1e-9 ? [v[0] / n, v[1] / n, v[2] / n] : null;
}
