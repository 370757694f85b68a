// What three.js makes of a BVH and a glTF file: run in a folder that has it, as other_players.py
// does. Arguments: FILE, times.json [s], where to write; places by time by the name of a joint.
import fs from 'fs';
import * as THREE from 'three';
import { BVHLoader } from 'three/examples/jsm/loaders/BVHLoader.js';
import { GLTFLoader } from 'three/examples/jsm/loaders/GLTFLoader.js';

globalThis.self = globalThis;
const [file, times, out] = process.argv.slice(2);
const text = fs.readFileSync(file);

async function read() {
  if (file.endsWith('.bvh')) {
    const { skeleton, clip } = new BVHLoader().parse(text.toString());
    return [new THREE.Group().add(skeleton.bones[0]), clip];
  }
  const data = text.buffer.slice(text.byteOffset, text.byteOffset + text.byteLength);
  const { scene, animations } = await new GLTFLoader().parseAsync(data, '');
  return [scene, animations[0]];
}

const [root, clip] = await read();
const mixer = new THREE.AnimationMixer(root), places = {};
mixer.clipAction(clip).play();
for (const t of JSON.parse(fs.readFileSync(times))) {
  mixer.setTime(Math.min(t, clip.duration - 1e-9));
  root.updateMatrixWorld(true);
  root.traverse((each) => {
    const place = each.getWorldPosition(new THREE.Vector3()).toArray();
    if (each.name) (places[each.name] ||= []).push(place);
  });
}
fs.writeFileSync(out, JSON.stringify(places));
