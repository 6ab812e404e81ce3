// Parts of a page that the server fills again when a job changes: `data-live` names the address of the part.
import { follow } from "./api.js";
import { tick } from "./times.js";

const parts = [...document.querySelectorAll("[data-live]")];
const shown = new WeakMap();
const TYPED = "input:not([type=checkbox]), textarea";
let waiting = false;
let again = false;

async function refill(part) {
  const answer = await fetch(part.dataset.live, { headers: { accept: "text/plain, text/html-part" } });
  if (answer.status === 401) return location.reload();
  if (!answer.ok) return;
  const text = await answer.text();
  if (text === shown.get(part)) return;
  // Whoever types into it is not disturbed; it is filled when they are done.
  if (part.contains(document.activeElement) && document.activeElement.matches(TYPED)) {
    document.activeElement.addEventListener("blur", () => void refresh(), { once: true });
    return;
  }
  shown.set(part, text);
  const opened = [...part.querySelectorAll("details")].map((node) => node.open);
  const kept = new Set([...part.querySelectorAll("input:checked")].map((node) => node.value));
  const focus = part.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  // The part was escaped by the server's templates, as the page itself was.
  part.innerHTML = text;
  for (const node of part.querySelectorAll("input[type=checkbox]")) node.checked = kept.has(node.value);
  // What a reader opened or closed stays so, as long as there are as many of them.
  const folds = part.querySelectorAll("details");
  if (folds.length === opened.length) folds.forEach((node, index) => (node.open = opened[index]));
  if (focus) part.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  tick(part);
  part.dispatchEvent(new CustomEvent("filled", { bubbles: true }));
}

// At most one round of questions at a time, however much happens.
export async function refresh() {
  if (waiting) {
    again = true;
    return;
  }
  waiting = true;
  try {
    await Promise.all(parts.map(refill));
  } catch {
    // The server is away: the next event asks again.
  }
  setTimeout(() => {
    waiting = false;
    if (again) refresh();
    again = false;
  }, 400);
}

if (parts.length) {
  follow("/events", () => void refresh());
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  if (parts.some((part) => part.dataset.every)) setInterval(() => document.hidden || refresh(), 5000);
}
