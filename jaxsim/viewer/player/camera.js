// Where the camera looks and from where. No perspective: far things are as large as near ones.

const VIEWS = data.views; // name: [yaw, pitch], in degrees
const camera = { yaw: 0, pitch: 0, zoom: 1, offset: [0, 0, 0] };
const view = byId("view");
const BOTTOM = 52; // [px] below the ground
const FIRST_VIEW = data.planar ? "side" : "corner";

function setView(name) {
  [camera.yaw, camera.pitch] = VIEWS[name].map((deg) => deg * Math.PI / 180);
  byId("views").value = name;
  state.dirty = true;
}

function resetView() {
  camera.zoom = 1;
  camera.offset = [0, 0, 0];
  byId("follow").checked = options.follow = true;
  setView(FIRST_VIEW);
}

function lens(i, f) { // from the world in [m] to the picture in [px], at a time
  const w = Math.max(1, view.clientWidth), h = Math.max(1, view.clientHeight);
  const cy = Math.cos(camera.yaw), sy = Math.sin(camera.yaw);
  const cp = Math.cos(camera.pitch), sp = Math.sin(camera.pitch);
  const right = [cy, sy, 0], up = [-sy * sp, cy * sp, cp], back = [sy * cp, -cy * cp, sp];
  const above = w < 560 ? 98 : 76; // [px] for the phase and the read-outs
  const fit = Math.min(0.92 * w / (2 * extent.across),
    Math.max(60, h - above - BOTTOM) / (extent.high - extent.low));
  const scale = fit * camera.zoom;
  const at = options.follow ? followPoint(i, f) : [0, 0];
  const lift = (extent.high + extent.low) / 2 + (above - BOTTOM) / 2 / fit;
  const target = along([at[0], at[1], lift], 1, camera.offset);
  const tr = dot(target, right), tu = dot(target, up), tb = dot(target, back);
  return { w, h, right, up, back, scale, target,
    at: (p) => [w / 2 + scale * (dot(p, right) - tr), h / 2 - scale * (dot(p, up) - tu)],
    depth: (p) => dot(p, back) - tb };
}
