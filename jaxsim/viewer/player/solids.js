// Bodies in space as convex solids, and which of them hides which. Of two, that one is drawn later
// which lies on the near side of a plane between them. Height fields are taken by triangles.

function reachOf(o, n) { // how far a solid reaches along n
  if (o.points) return Math.max(...o.points.map((p) => dot(n, p)));
  if (o.half) {
    return o.half.reduce((sum, h, k) => sum + h * Math.abs(dot(n, o.axes[k])), dot(n, o.p));
  }
  return Math.max(...o.balls.map(([c, r]) => dot(n, c) + r));
}

function nearestTo(o, x) { // of a solid, without the roundness of balls
  if (o.points) return o.p;
  if (o.half) {
    const d = along(x, -1, o.p);
    return o.axes.reduce((q, a, k) => along(q, clamp(dot(d, a), -o.half[k], o.half[k]), a), o.p);
  }
  const a = o.balls[0][0], b = o.balls[o.balls.length - 1][0];
  const d = along(b, -1, a), long = dot(d, d);
  return long > 1e-12 ? along(a, clamp(dot(along(x, -1, a), d) / long, 0, 1), d) : a;
}

function nearer(a, b, back) { // > 0: b is in front of a
  let x = a.p, y = b.p;
  for (let k = 0; k < 4; k++) { y = nearestTo(b, x); x = nearestTo(a, y); }
  const normals = [unit(along(y, -1, x)), unit(along(b.p, -1, a.p)), ...a.normals, ...b.normals];
  if (a.half && b.half) {
    for (const m of a.axes) for (const n of b.axes) normals.push(unit(cross(m, n)));
  }
  let gap = -Infinity, side = 0;
  for (const n of normals) {
    const towards = n ? dot(n, back) : 0;
    if (Math.abs(towards) < 1e-3) continue;
    const m = opposite(n);
    const ahead = -reachOf(b, m) - reachOf(a, n), behind = -reachOf(a, m) - reachOf(b, n);
    if (Math.max(ahead, behind) > gap) {
      gap = Math.max(ahead, behind);
      side = ahead >= behind ? towards : -towards;
    }
  }
  return side;
}

function fromBehind(solids, cam) { // in the order in which they are drawn
  for (const o of solids) {
    o.x0 = -reachOf(o, opposite(cam.right)); o.x1 = reachOf(o, cam.right);
    o.y0 = -reachOf(o, opposite(cam.up)); o.y1 = reachOf(o, cam.up);
    o.depth = cam.depth(o.p); o.before = 0; o.after = [];
  }
  for (let i = 0; i < solids.length; i++) for (let j = i + 1; j < solids.length; j++) {
    const a = solids[i], b = solids[j];
    if (a.x0 > b.x1 || b.x0 > a.x1 || a.y0 > b.y1 || b.y0 > a.y1) continue;
    if (a.points && b.points) continue;
    const side = nearer(a, b, cam.back);
    if (side > 0) { a.after.push(b); b.before++; }
    if (side < 0) { b.after.push(a); a.before++; }
  }
  const waiting = [...solids].sort((a, b) => a.depth - b.depth), out = [];
  while (waiting.length) {
    const k = Math.max(0, waiting.findIndex((o) => o.before <= 0)); // in a circle: the farthest
    const [o] = waiting.splice(k, 1);
    for (const b of o.after) b.before--;
    out.push(o);
  }
  return out;
}
