// The motion, as `page.py` wrote it into the page: names, shapes, and arrays by frame.
// Arrays are flat: number k of link l at frame i of (frames, links, 3) is at
// 3 * (links * i + l) + k.

const byId = (id) => document.getElementById(id);
const notice = byId("notice");
window.addEventListener("error", (e) => {
  notice.textContent = "The player failed: " + e.message;
});

const data = JSON.parse(byId("motion").textContent);
const readers = { "<f4": Float32Array, "<i4": Int32Array, "<i2": Int16Array, "|u1": Uint8Array };
const arrays = {};
for (const [name, a] of Object.entries(data.arrays)) {
  arrays[name] = new readers[a.type](Uint8Array.from(atob(a.data), (c) => c.charCodeAt(0)).buffer);
}

const time = arrays.time, frames = time.length, linkCount = data.links.length;
const heightCount = data.height_names.length, end = frames ? time[frames - 1] : 0;
const comHeight = data.height_names.indexOf("com"); // all that is known where hasCom is false
const hasCom = arrays.com.length > 0;
const gripCount = data.grips.length;
const hasForce = arrays.force_peak.some((v) => v !== 0);
notice.textContent = data.notice || (frames ? "" : "This motion has no frames.");
