// Whether a run that ended was faster than the one before it of the same name, asked for after the page is there.
import { ask, base, make, say } from "./api.js";

const TONES = { faster: "good", slower: "bad", equivalent: "calm", inconclusive: "warn", incomplete: "warn" };
const known = new Map();

async function verdict(key) {
  const [a, b] = key.split(" ");
  const found = (await ask("GET", `/compare?a=${a}&b=${b}`))[0]?.overall;
  const ratio = found?.verdict?.ratio;
  return found ? { word: found.word, share: ratio ? `${ratio >= 1 ? "+" : ""}${((ratio - 1) * 100).toFixed(1)} %` : "" } : null;
}

async function fill() {
  for (const node of document.querySelectorAll("[data-verdict]:empty")) {
    const key = node.dataset.verdict;
    if (!known.has(key)) known.set(key, verdict(key).catch(() => null));
    const found = await known.get(key);
    if (!found || node.firstChild) continue;
    const [a, b] = key.split(" ");
    const badge = make("span", { className: `badge ${TONES[found.word] || "calm"}` }, say(`verdict_${found.word}`), " ", found.share);
    node.append(make("a", { href: `${base}/compare?run=${a}&run=${b}` }, badge), " ", say(node.dataset.baseline === "1" ? "verdict_baseline" : "verdict_before"));
  }
}
fill();
document.addEventListener("filled", fill);
