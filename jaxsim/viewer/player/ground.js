// A plane: the ground with a grid and a ruler, a line where it is seen from its edge.

function drawPlane(g, cam, at, solid) {
  const [ax, ay, n] = at.axes, facing = Math.abs(dot(n, cam.back));
  const step = niceStep(56 / cam.scale), reach = 0.75 * Math.hypot(cam.w, cam.h) / cam.scale;
  const foot = along(cam.target, -1, at.p);
  const u0 = dot(foot, ax), v0 = dot(foot, ay);
  const point = (u, v) => along(along(at.p, u, ax), v, ay);
  const edgeOn = facing < 0.02;
  const r = edgeOn ? 1.2 * reach : Math.min(reach / Math.max(facing, 0.25), 40 * step);
  if (edgeOn) drawFromEdge(g, cam, point(u0, v0), n, solid);
  else drawGrid(g, cam, point, u0, v0, r, step, solid);
  // the ruler: along the axis of the plane that is longer on the screen
  const long = (d) => Math.hypot(dot(d, cam.right), dot(d, cam.up));
  if (long(ax) >= long(ay) - 1e-9) drawRuler(g, cam, at.p, ax, "x", u0, r, step);
  else drawRuler(g, cam, at.p, ay, "y", v0, r, step);
}

function drawFromEdge(g, cam, p, n, solid) { // a line on the screen; what is below it is ground
  const nx = dot(n, cam.right), ny = -dot(n, cam.up);
  const c = cam.at(p), far = 2 * Math.hypot(cam.w, cam.h);
  const [a, b] = [-far, far].map((k) => [c[0] - k * ny, c[1] + k * nx]);
  if (solid) {
    const below = ([x, y]) => [x - far * nx, y - far * ny];
    tracePolygon(g, [a, b, below(b), below(a)]);
    g.fillStyle = paint.ground;
    g.fill();
  }
  g.strokeStyle = paint.horizon;
  g.lineWidth = solid ? 1.5 : 1;
  g.beginPath();
  g.moveTo(a[0], a[1]);
  g.lineTo(b[0], b[1]);
  g.stroke();
}

function drawGrid(g, cam, point, u0, v0, r, step, solid) { // a square of half width r
  if (solid) {
    const square = [[-r, -r], [r, -r], [r, r], [-r, r]];
    tracePolygon(g, square.map(([a, b]) => cam.at(point(u0 + a, v0 + b))));
    g.fillStyle = paint.ground;
    g.fill();
  }
  g.strokeStyle = paint.grid;
  g.lineWidth = 1;
  g.beginPath();
  for (const [c, line] of [[u0, (k, e) => point(k, v0 + e)], [v0, (k, e) => point(u0 + e, k)]]) {
    for (let k = Math.ceil((c - r) / step) * step; k <= c + r; k += step) {
      const a = cam.at(line(k, -r)), b = cam.at(line(k, r));
      g.moveTo(a[0], a[1]);
      g.lineTo(b[0], b[1]);
    }
  }
  g.stroke();
}

function drawRuler(g, cam, origin, axis, name, middle, r, step) {
  g.strokeStyle = paint.horizon;
  g.fillStyle = paint.soft;
  g.textAlign = "center";
  g.textBaseline = "top";
  for (let m = Math.ceil((middle - r) / step); m * step <= middle + r; m++) {
    const a = cam.at(along(origin, m * step, axis));
    if (a[0] < -30 || a[0] > cam.w + 30) continue;
    g.beginPath();
    g.moveTo(a[0], a[1]);
    g.lineTo(a[0], a[1] + 7);
    g.stroke();
    const words = number(m * step, step) + (m === 0 ? " m (" + name + ")" : "");
    const room = g.measureText(words).width / 2 + 3;
    if (a[0] > room && a[0] < cam.w - room) g.fillText(words, a[0], a[1] + 9);
  }
}
