// Kinds of collision shapes, each as solids of the picture from a shape s and its place `at`: with
// `balls` (centres and radii of one or two, for their hull), `half` (of a box) or `points` (of a
// triangle). A new kind is an entry here. Null: a half space, drawn as the ground.

const KINDS = {
  sphere: (s, at) => [{ balls: [[at.p, s.size[0]]] }],
  capsule: (s, at) => [{ balls: ends(at, s.size[0], s.size[0], s.size[1]) }],
  tapered_capsule: (s, at) => [{ balls: ends(at, ...s.size) }],
  box: (s, at) => [{ axes: at.axes, half: s.size, normals: at.axes }],
  height_field: trianglesOf,
  plane: null,
};

function solidsOf(s, at) {
  const o = { s, at, p: at.p, normals: [] };
  return KINDS[s.kind](s, at).map((solid) => ({ ...o, ...solid }));
}

function ends(at, r0, r1, half) { // the two balls of a capsule
  return [[along(at.p, half, at.axes[0]), r0], [along(at.p, -half, at.axes[0]), r1]];
}

function trianglesOf(s, at) { // of a height field
  const out = [], nx = s.heights.length, ny = s.heights[0].length;
  const node = (i, j) => along(along(along(at.p, s.size[0] * (2 * i / (nx - 1) - 1), at.axes[0]),
    s.size[1] * (2 * j / (ny - 1) - 1), at.axes[1]), s.heights[i][j], at.axes[2]);
  for (let i = 0; i + 1 < nx; i++) for (let j = 0; j + 1 < ny; j++) {
    const [a, b, c, d] = [node(i, j), node(i + 1, j), node(i + 1, j + 1), node(i, j + 1)];
    for (const points of [[a, b, c], [a, c, d]]) {
      const p = [0, 1, 2].map((k) => (points[0][k] + points[1][k] + points[2][k]) / 3);
      const normal = unit(cross(along(points[1], -1, points[0]), along(points[2], -1, points[0])));
      out.push({ p, points, normals: [normal], normal });
    }
  }
  return out;
}
