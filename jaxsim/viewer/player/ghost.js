// Where the reference has the links: the same shapes, seen through, without shadows or marks.

const hasGhost = Boolean(arrays.ghost_pos);
const layer = document.createElement("canvas"); // so that shapes do not show through each other

function drawGhost(g, cam, i, f) {
  layer.width = view.width;
  layer.height = view.height;
  const over = layer.getContext("2d");
  over.setTransform(g.getTransform());
  over.lineJoin = "round";
  drawFlat(over, cam, poses(i, f, arrays.ghost_pos, arrays.ghost_quat),
    shapes.filter((s) => s.link >= 0), () => paint.ghost);
  g.save();
  g.resetTransform();
  g.globalAlpha = 0.4;
  g.drawImage(layer, 0, 0);
  g.restore();
}
