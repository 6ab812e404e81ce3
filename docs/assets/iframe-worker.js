// Search in pages that are opened as files. Browsers start no worker for them, so the worker's script runs in a hidden
// frame instead. The theme asks whether a class `IFrameWorker` is there, and then waits for `importScripts`.
"use strict"

if (location.protocol === "file:") {
  const load = (page, url) =>
    new Promise((done, failed) => {
      const script = page.createElement("script")
      script.src = url
      script.onload = done
      script.onerror = () => failed(new Error(`${url} cannot be loaded`))
      page.head.appendChild(script)
    })

  window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.appendChild(frame)
      const inside = frame.contentWindow
      // What the worker sends comes out of this object, as it would come out of a worker.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = async (...urls) => {
        for (const one of urls) await load(inside.document, one)
      }
      this.frame = frame
      this.ready = load(inside.document, new URL(url, location.href).href)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
