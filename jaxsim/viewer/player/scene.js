// The whole picture of one moment, from the ground to the legend.

const LEVEL = { p: [0, 0, 0], axes: [[1, 0, 0], [0, 1, 0], [0, 0, 1]] };

function drawScene(i, f) {
  const { g, w, h } = context(view);
  const cam = lens(i, f), links = frames ? poses(i, f) : data.links.map(() => null);
  g.fillStyle = paint.sky;
  g.fillRect(0, 0, w, h);
  for (const s of planes) {
    const at = placed(s, links);
    if (at) drawPlane(g, cam, at, true);
  }
  if (!planes.length) drawPlane(g, cam, LEVEL, false);
  (data.planar ? drawFlat : drawSpace)(g, cam, links);
  g.fillStyle = paint.middle;
  for (const l of bare) {
    if (!links[l]) continue;
    const c = cam.at(links[l].p);
    g.beginPath();
    g.arc(c[0], c[1], 3, 0, 2 * Math.PI);
    g.fill();
  }
  if (frames && hasGhost && options.ghost) drawGhost(g, cam, i, f);
  if (frames && options.com && (hasCom || comHeight >= 0)) drawCom(g, cam, i, f);
  if (frames && options.forces) drawForces(g, cam, i);
  if (frames) drawGrips(g, cam, i);
  drawLegend(g, cam);
}
