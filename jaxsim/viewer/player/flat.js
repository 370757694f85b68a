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

function drawShape(g, cam, s, at, colour) {
  if (s.kind === "box") return drawBox(g, cam, at, s.size, colour);
  if (s.kind === "sphere") {
    const c = cam.at(at.p);
    g.beginPath();
    g.arc(c[0], c[1], s.size[0] * cam.scale, 0, 2 * Math.PI);
  } else {
    const [[a, r0], [b, r1]] = ends(s, at);
    traceCapsule(g, cam.at(a), r0 * cam.scale, cam.at(b), r1 * cam.scale);
  }
  fillAndEdge(g, colour);
}

function drawFlat(g, cam, links, drawn = shapes, colourOf = (s) => paint[s.part]) {
  const flat = Math.abs(cam.back[1]) > 0.9, items = [];
  for (const s of drawn) {
    const at = s.kind === "plane" || s.kind === "height_field" ? null : placed(s, links);
    if (at) {
      items.push({ key: ORDER[s.part], depth: flat ? 0 : Math.round(200 * cam.depth(at.p)),
        draw: () => drawShape(g, cam, s, at, colourOf(s)) });
    }
  }
  items.sort((a, b) => (flat ? a.key - b.key : a.depth - b.depth || a.key - b.key));
  for (const item of items) item.draw();
}
