// What is drawn over the bodies: forces, the centre of mass, grips, and the legend.

function drawArrow(g, a, b, colour) {
  const d = Math.hypot(b[0] - a[0], b[1] - a[1]);
  g.strokeStyle = g.fillStyle = colour;
  g.lineWidth = 2.5;
  g.beginPath();
  g.arc(a[0], a[1], 3, 0, 2 * Math.PI);
  g.fill();
  if (d < 1) return;
  const head = Math.min(11, d), ux = (b[0] - a[0]) / d, uy = (b[1] - a[1]) / d;
  g.beginPath();
  g.moveTo(a[0], a[1]);
  g.lineTo(b[0] - 0.8 * head * ux, b[1] - 0.8 * head * uy);
  g.stroke();
  tracePolygon(g, [b, [b[0] - head * ux - 0.42 * head * uy, b[1] - head * uy + 0.42 * head * ux],
    [b[0] - head * ux + 0.42 * head * uy, b[1] - head * uy - 0.42 * head * ux]]);
  g.fill();
}

function drawForces(g, cam, i) {
  for (let k = arrays.contact_start[i]; k < arrays.contact_start[i + 1]; k++) {
    const p = arrays.contact.subarray(6 * k, 6 * k + 3);
    const F = arrays.contact.subarray(6 * k + 3, 6 * k + 6);
    if (finite(p) && finite(F)) {
      drawArrow(g, cam.at(p), cam.at(along(p, 0.5 / data.force_step, F)), paint.force);
    }
  }
}

function drawCom(g, cam, i, f) {
  const j = Math.min(i + 1, frames - 1);
  if (hasCom) {
    const p = [0, 1, 2].map((k) => (1 - f) * arrays.com[3 * i + k] + f * arrays.com[3 * j + k]);
    if (finite(p)) drawComPoint(g, cam, p);
  } else {
    const at = (frame) => arrays.heights[heightCount * frame + comHeight];
    drawComHeight(g, cam, [...followPoint(i, f), (1 - f) * at(i) + f * at(j)]);
  }
}

function drawComPoint(g, cam, p) { // a disc of four quarters over a dashed line to the ground
  const c = cam.at(p), foot = cam.at([p[0], p[1], 0]), r = 7;
  g.setLineDash([3, 4]);
  g.strokeStyle = paint.com;
  g.lineWidth = 1.2;
  g.beginPath();
  g.moveTo(c[0], c[1]);
  g.lineTo(foot[0], foot[1]);
  g.stroke();
  g.setLineDash([]);
  g.beginPath();
  g.arc(c[0], c[1], r, 0, 2 * Math.PI);
  g.fillStyle = paint.card;
  g.fill();
  g.fillStyle = paint.com;
  for (const q of [0, Math.PI]) { // two opposite quarters
    g.beginPath();
    g.moveTo(c[0], c[1]);
    g.arc(c[0], c[1], r, q, q + Math.PI / 2);
    g.fill();
  }
  g.beginPath();
  g.arc(c[0], c[1], r, 0, 2 * Math.PI);
  g.stroke();
}

function drawComHeight(g, cam, p) { // a dashed line with its name
  const c = cam.at(p);
  g.setLineDash([5, 4]);
  g.strokeStyle = g.fillStyle = paint.com;
  g.lineWidth = 1.4;
  g.beginPath();
  g.moveTo(c[0] - 0.45 * cam.scale, c[1]);
  g.lineTo(c[0] + 0.45 * cam.scale, c[1]);
  g.stroke();
  g.setLineDash([]);
  const words = "centre of mass", x = c[0] + 0.45 * cam.scale;
  const beside = x + 6 + g.measureText(words).width < cam.w;
  g.textAlign = beside ? "left" : "right";
  g.textBaseline = beside ? "middle" : "bottom";
  g.fillText(words, beside ? x + 6 : Math.min(x, cam.w - 6), c[1] - (beside ? 0 : 4));
}

function drawLegend(g, cam) {
  const y = cam.h - 15;
  let x = 16;
  g.textAlign = "left";
  g.textBaseline = "middle";
  const text = (words) => {
    g.fillStyle = paint.soft;
    g.fillText(words, x, y);
    x += g.measureText(words).width + 18;
  };
  if (options.forces && arrays.contact.length) {
    const long = 0.5 * cam.scale;
    if (long < cam.w * 0.4) {
      drawArrow(g, [x, y], [x + long, y], paint.force);
      x += long + 8;
      text(data.force_step + " N");
    }
  }
  for (const part of ["left", "right", "loose", "driven"]) {
    if (!shapes.some((s) => s.part === part)) continue;
    g.fillStyle = paint[part];
    g.fillRect(x, y - 6, 12, 12);
    x += 18;
    text(part);
  }
  if (hasGhost && options.ghost) {
    g.globalAlpha = 0.4;
    g.fillStyle = paint.ghost;
    g.fillRect(x, y - 6, 12, 12);
    g.globalAlpha = 1;
    x += 18;
    text("reference");
  }
  if (gripCount) {
    drawGrip(g, [x + 6, y]);
    x += 20;
    text("grip");
  }
}

function drawGrip(g, c) { // a ring around a dot
  g.strokeStyle = g.fillStyle = paint.grip;
  g.lineWidth = 2;
  g.beginPath();
  g.arc(c[0], c[1], 6.5, 0, 2 * Math.PI);
  g.stroke();
  g.beginPath();
  g.arc(c[0], c[1], 2.5, 0, 2 * Math.PI);
  g.fill();
}

function drawGrips(g, cam, i) {
  for (let k = 0; k < gripCount; k++) {
    const j = gripCount * i + k, p = arrays.grip_pos.subarray(3 * j, 3 * j + 3);
    if (!arrays.grip_closed[j] || !finite(p)) continue;
    const F = arrays.grip_force.subarray(3 * j, 3 * j + 3);
    if (options.forces && finite(F) && dot(F, F) > 0) {
      drawArrow(g, cam.at(p), cam.at(along(p, 0.5 / data.force_step, F)), paint.grip);
    }
    drawGrip(g, cam.at(p));
  }
}
