// Bodies of a planar character: flat colours, from its side the far limbs first.

// what is drawn before what, from the side
const ORDER = { surroundings: 0, driven: 0, loose: 0, right: 1, middle: 2, left: 3 };

function fillAndEdge(g, colour) {
  g.fillStyle = colour;
  g.fill();
  g.strokeStyle = paint.edge;
  g.lineWidth = 1.1;
  g.stroke();
}

function drawBox(g, cam, at, h, colour) {
  const points = corners(at, h).map(cam.at);
  for (const [axis, sign, ids] of FACES) {
    const facing = sign * dot(at.axes[axis], cam.back);
    if (facing <= 1e-4) continue;
    tracePolygon(g, ids.map((i) => points[i]));
    g.fillStyle = colour;
    g.fill();
    g.globalAlpha = 0.3 * clamp(0.55 - 0.55 * sign * at.axes[axis][2], 0, 1) * (1 - 0.5 * facing);
    g.fillStyle = paint.shade;
    g.fill();
    g.globalAlpha = 1;
    g.strokeStyle = paint.edge;
    g.lineWidth = 1.1;
    g.stroke();
  }
}

function drawShape(g, cam, o, colour) {
  if (o.half) return drawBox(g, cam, o.at, o.half, colour);
  const [[a, r0], [b, r1]] = [o.balls[0], o.balls[o.balls.length - 1]];
  if (o.balls.length === 1) {
    const c = cam.at(a);
    g.beginPath();
    g.arc(c[0], c[1], r0 * cam.scale, 0, 2 * Math.PI);
  } else traceCapsule(g, cam.at(a), r0 * cam.scale, cam.at(b), r1 * cam.scale);
  fillAndEdge(g, colour);
}

function drawFlat(g, cam, links, drawn = shapes, colourOf = (s) => paint[s.part]) {
  const flat = Math.abs(cam.back[1]) > 0.9, items = [];
  for (const s of drawn) {
    const at = KINDS[s.kind] ? placed(s, links) : null;
    if (!at) continue;
    for (const o of solidsOf(s, at).filter((solid) => !solid.points)) { // no height fields
      items.push({ key: ORDER[s.part], depth: flat ? 0 : Math.round(200 * cam.depth(at.p)),
        draw: () => drawShape(g, cam, o, colourOf(s)) });
    }
  }
  items.sort((a, b) => (flat ? a.key - b.key : a.depth - b.depth || a.key - b.key));
  for (const item of items) item.draw();
}
