// Parts of a page that the server fills again when a job changes: `data-live` names the address of the part.
import { follow, say, toast } from "./api.js";
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

// What the reader wants to be told goes to one of their open pages.
function tell(notice) {
  const text = say(`notice_${notice.event}`, notice.name, notice.number, say(`state_${notice.state}`));
  if (window.Notification?.permission !== "granted") return toast(text, notice.event !== "ended");
  const shown = new Notification(text, { body: notice.why, tag: `trainmark-${notice.id}` });
  shown.addEventListener("click", () => window.focus());
}

const reads = document.getElementById("session") !== null;
if (parts.length || (reads && window.Notification?.permission === "granted")) {
  follow("/events", (event, data) => (event === "notice" ? tell(data) : void refresh()));
}
if (parts.length) {
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  if (parts.some((part) => part.dataset.every)) setInterval(() => document.hidden || refresh(), 5000);
}
