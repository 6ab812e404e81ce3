// Whether a run that ended was faster than what it is held against, asked for after the page is there.
import { ask, base, make, say } from "./api.js";

const TONES = { faster: "good", slower: "bad", equivalent: "calm", inconclusive: "calm", incomplete: "warn" };
// Where nothing was shown, a share would say more than is known.
const SHOWN = ["faster", "slower"];
const known = new Map();

async function fill() {
  for (const node of document.querySelectorAll("[data-verdict]:empty")) {
    const job = node.dataset.verdict;
    if (!known.has(job)) known.set(job, ask("GET", `/runs/${job}/verdict`).catch(() => null));
    const found = await known.get(job);
    if (!found?.word || node.firstChild) continue;
    const share = SHOWN.includes(found.word) && found.ratio ? ` ${found.ratio >= 1 ? "+" : ""}${((found.ratio - 1) * 100).toFixed(1)} %` : "";
    const badge = make("span", { className: `badge ${TONES[found.word] || "calm"}` }, say(`verdict_${found.word}`), share);
    const link = make("a", { href: `${base}/compare?run=${found.job}&run=${job}` }, badge);
    node.append(link, " ", say(found.baseline ? "verdict_baseline" : "verdict_before"));
  }
}
fill();
document.addEventListener("filled", fill);
