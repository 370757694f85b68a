// What the reader has set: where in time, and what is shown.

const options = { follow: true, forces: true, com: true, ghost: true };
const state = { t: 0, playing: false, speed: 1, dirty: true };
