// Asking the API as this page's reader, and the words that scripts say.
const read = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");
const words = read("words");
export const base = document.documentElement.dataset.base;
export const api = (path) => `${base}/api/v1${path}`;

// "{0}" in a text is filled in; what is filled in is data and stays as it is.
export function say(key, ...values) {
  return (words[key] ?? key).replace(/\{(\d)\}/g, (_, number) => values[number] ?? "");
}

export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export async function ask(method, path, body) {
  const headers = { accept: "application/json", "accept-language": document.documentElement.lang };
  const { csrf } = read("session");
  if (csrf) headers["x-csrf-token"] = csrf;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(api(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refusal(0, say("offline"));
  }
  const text = await answer.text();
  let found = text;
  if ((answer.headers.get("content-type") || "").startsWith("application/json")) found = JSON.parse(text || "null");
  if (!answer.ok) throw new Refusal(answer.status, found?.detail || answer.statusText);
  return found;
}

// Server-sent events by fetch: unlike EventSource it can say where to go on, and a page that nobody sees stops reading.
// `on` is called with (event, data, id). Returns a function that ends it.
export function follow(path, on, { last = "", language } = {}) {
  let stop = false;
  let control = null;
  let wait = 1000;
  async function read_once() {
    control = new AbortController();
    const headers = { accept: "text/event-stream", "accept-language": language || document.documentElement.lang };
    if (last) headers["last-event-id"] = last;
    const answer = await fetch(api(path), { headers, signal: control.signal });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Refusal(answer.status, answer.statusText);
    wait = 1000;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const pieces = rest.split(/\r?\n\r?\n/);
      rest = pieces.pop();
      for (const piece of pieces) {
        const event = { event: "message", data: [] };
        for (const line of piece.split(/\r?\n/)) {
          const colon = line.indexOf(":");
          if (colon < 1) continue;
          const value = line.slice(colon + 1).replace(/^ /, "");
          if (line.slice(0, colon) === "data") event.data.push(value);
          else event[line.slice(0, colon)] = value;
        }
        if (event.id) last = event.id;
        if (!event.data.length) continue;
        if (on(event.event, JSON.parse(event.data.join("\n") || "null"), last) === "end") stop = true;
      }
      if (stop) return control.abort();
    }
  }
  async function go() {
    while (!stop) {
      if (document.hidden) {
        await new Promise((resume) => document.addEventListener("visibilitychange", resume, { once: true }));
        continue;
      }
      try {
        await read_once();
      } catch (error) {
        if (stop) return;
        if (error.name !== "AbortError") wait = Math.min(wait * 2, 15000);
      }
      if (!stop) await new Promise((resume) => setTimeout(resume, wait));
    }
  }
  const hide = () => document.hidden && control?.abort();
  document.addEventListener("visibilitychange", hide);
  go();
  return () => {
    stop = true;
    control?.abort();
    document.removeEventListener("visibilitychange", hide);
  };
}

export function toast(text, bad = false) {
  const place = document.querySelector(".toasts");
  const node = document.createElement("div");
  node.className = bad ? "toast bad" : "toast";
  node.textContent = text;
  place.append(node);
  setTimeout(() => node.remove(), bad ? 10000 : 4000);
}

// An element with properties, children and listeners; text is only ever text.
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
