// Bodies in space: shaded, cut off at the ground, with shadows.

const LIGHT = [0.36, -0.48, 0.8]; // towards it

function shadeFace(g, normal) {
  g.globalAlpha = 0.5 * (1 - clamp(dot(normal, LIGHT), 0, 1));
  g.fillStyle = paint.shade;
  g.fill();
  g.globalAlpha = 1;
}

function thinEdge(g, alpha) {
  g.globalAlpha = alpha;
  g.strokeStyle = paint.edge;
  g.lineWidth = 0.9;
  g.stroke();
  g.globalAlpha = 1;
}

function aboveGround(points, cuts) { // what of a flat face is not in the ground
  for (const { p, axes } of cuts) {
    const n = axes[2], height = (x) => dot(along(x, -1, p), n), kept = [];
    points.forEach((b, k) => {
      const a = points[(k + points.length - 1) % points.length], ha = height(a), hb = height(b);
      if (ha * hb < 0) kept.push(along(a, ha / (ha - hb), along(b, -1, a)));
      if (hb >= 0) kept.push(b);
    });
    points = kept;
  }
  return points;
}

function drawSolid(g, cam, o, cuts) {
  if (o.points) drawTriangle(g, cam, o, cuts);
  else if (o.half) drawFaces(g, cam, o, cuts);
  else drawRound(g, cam, o);
}

function drawTriangle(g, cam, o, cuts) {
  if (dot(o.normal, cam.back) <= 0) return;
  tracePolygon(g, aboveGround(o.points, cuts).map(cam.at));
  g.fillStyle = o.colour;
  g.fill();
  shadeFace(g, o.normal);
  thinEdge(g, 0.18);
}

function drawFaces(g, cam, o, cuts) {
  const points = corners(o.at, o.half);
  const high = reachOf(o, [0, 0, 1]) - o.p[2] > 0.6;
  const wall = high && o.s.part === "surroundings"; // look through it
  for (const [axis, sign, ids] of FACES) {
    const normal = o.axes[axis].map((v) => sign * v);
    if (dot(normal, cam.back) <= 1e-4) continue;
    tracePolygon(g, aboveGround(ids.map((i) => points[i]), cuts).map(cam.at));
    g.fillStyle = o.colour;
    g.globalAlpha = wall ? 0.3 : 1;
    g.fill();
    g.globalAlpha = 1;
    if (!wall) shadeFace(g, normal);
    thinEdge(g, 0.75);
  }
}

function drawRound(g, cam, o) { // a sphere or a capsule
  const [[a, r0], [b, r1]] = [o.balls[0], o.balls[o.balls.length - 1]];
  const p = cam.at(a), q = cam.at(b), r = Math.max(r0, r1) * cam.scale;
  if (o.balls.length === 1) {
    g.beginPath();
    g.arc(p[0], p[1], r, 0, 2 * Math.PI);
  } else traceCapsule(g, p, r0 * cam.scale, q, r1 * cam.scale);
  g.fillStyle = o.colour;
  g.fill();
  const shade = roundShade(g, cam, p, q, r);
  shade.addColorStop(0, "transparent");
  shade.addColorStop(1, paint.shade);
  g.globalAlpha = 0.42;
  g.fillStyle = shade;
  g.fill();
  thinEdge(g, 0.7);
}

function roundShade(g, cam, p, q, r) { // from the light to the dark side; all in [px]
  const dx = q[0] - p[0], dy = q[1] - p[1], long = Math.hypot(dx, dy);
  const mx = (p[0] + q[0]) / 2, my = (p[1] + q[1]) / 2;
  let lx = dot(LIGHT, cam.right), ly = -dot(LIGHT, cam.up);
  if (long < 0.4 * r) {
    const bright = [mx + 0.45 * r * lx, my + 0.45 * r * ly];
    return g.createRadialGradient(...bright, 0.1 * r, mx, my, 1.25 * r);
  }
  const t = (lx * dx + ly * dy) / (long * long); // across the axis
  lx -= t * dx; ly -= t * dy;
  const n = Math.hypot(lx, ly);
  [lx, ly] = n > 1e-3 ? [lx / n, ly / n] : [-dy / long, dx / long];
  return g.createLinearGradient(mx + r * lx, my + r * ly, mx - r * lx, my - r * ly);
}

function drawShadows(g, cam, ground, solids) { // straight down on level ground
  if (ground.axes[2][2] < 0.999 || cam.back[2] < 0.05) return;
  const z = ground.p[2];
  g.beginPath();
  for (const o of solids) {
    if (o.points || reachOf(o, [0, 0, 1]) < z) continue;
    const places = o.half ? corners(o.at, o.half).map((p) => [p, 0]) : o.balls;
    for (let k = 0; k < 40; k++) {
      const d = [Math.cos(2 * Math.PI * k / 40), Math.sin(2 * Math.PI * k / 40), 0];
      const far = ([c, r]) => dot(c, d) + r;
      const [c, r] = places.reduce((best, next) => (far(next) > far(best) ? next : best));
      const q = cam.at([c[0] + r * d[0], c[1] + r * d[1], z]);
      if (k) g.lineTo(q[0], q[1]); else g.moveTo(q[0], q[1]);
    }
    g.closePath();
  }
  g.globalAlpha = 0.16;
  g.fillStyle = paint.shade;
  g.fill();
  g.globalAlpha = 1;
}

function drawSpace(g, cam, links) {
  const solids = [];
  for (const s of shapes) {
    const at = KINDS[s.kind] ? placed(s, links) : null;
    for (const o of at ? solidsOf(s, at) : []) solids.push({ ...o, colour: paint[s.part] });
  }
  const cuts = planes.map((s) => placed(s, links))
    .filter((at) => at && dot(at.axes[2], cam.back) > 0);
  for (const at of cuts) drawShadows(g, cam, at, solids);
  for (const o of fromBehind(solids, cam)) drawSolid(g, cam, o, cuts);
}
