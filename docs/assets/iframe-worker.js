// A page that is opened as a file may not start workers, and the search is one. There a hidden frame
// runs the worker's script in its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const address = new URL(url, document.baseURI).href;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>worker</title>";
      frame.onload = () => {
        frame.onload = null;
        const inner = frame.contentWindow;
        inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inner.importScripts = (...urls) => urls.reduce((last, next) =>
          last.then(() => load(inner, new URL(next, address).href)), Promise.resolve());
        load(inner, address).then(() => {
          this.inner = inner;
          this.waiting.splice(0).forEach((data) => this.postMessage(data));
        });
      };
      (document.body || document.documentElement).append(frame);
      this.terminate = () => frame.remove();
    }

    postMessage(data) {
      if (this.inner) this.inner.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
  };

  const load = (inner, address) => new Promise((done, failed) => {
    const script = inner.document.createElement("script");
    script.onload = done;
    script.onerror = failed;
    script.src = address;
    inner.document.head.append(script);
  });
}
