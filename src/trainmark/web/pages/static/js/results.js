// A run's report: sharing it and keeping it.
import { ask, base, make, say, toast } from "./api.js";

const DAYS = [1, 7, 30, 90];

async function share(run) {
  const days = make("select", {}, ...DAYS.map((count) => new Option(say("days", count), count, count === 7, count === 7)));
  const go = make("button", { type: "button", className: "button primary" }, say("share_make"));
  const no = make("button", { type: "button", className: "button" }, say("cancel"));
  const place = make("div", { className: "stack" }, make("p", {}, say("share_text")), make("label", {}, say("share_days"), days));
  const box = make("dialog", {}, make("h2", {}, say("share_title")), place, make("div", { className: "buttons" }, no, go));
  box.setAttribute("aria-label", say("share_title"));
  no.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  go.addEventListener("click", async () => {
    try {
      const made = await ask("POST", `/runs/${run}/shares`, { days: Number(days.value) });
      const address = `${location.origin}${base}/shared/${made.link}`;
      const copy = make("button", { type: "button", className: "button" }, say("copy"));
      copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(address);
        copy.textContent = say("copied");
      });
      place.replaceChildren(make("p", {}, say("share_once")), make("p", { className: "secret" }, make("code", {}, address), copy));
      go.remove();
      no.textContent = say("done");
      box.addEventListener("close", () => location.reload());
    } catch (problem) {
      toast(problem.message, true);
    }
  });
  document.body.append(box);
  box.showModal();
}

document.addEventListener("click", async (event) => {
  const node = event.target.closest("[data-share], [data-pin], [data-unshare], [data-baseline]");
  if (!node) return;
  try {
    if (node.dataset.share) await share(node.dataset.share);
    else if (node.dataset.baseline) {
      await ask("PUT", `/runs/${node.dataset.baseline}/baseline`);
      location.reload();
    } else if (node.dataset.pin) {
      await ask(node.getAttribute("aria-pressed") === "true" ? "DELETE" : "PUT", `/runs/${node.dataset.pin}/pin`);
      location.reload();
    } else {
      await ask("DELETE", `/runs/${node.dataset.unshare}/shares/${node.dataset.id}`);
      location.reload();
    }
  } catch (problem) {
    toast(problem.message, true);
  }
});
