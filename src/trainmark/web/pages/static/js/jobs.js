// The tables of jobs and of runs: choosing several, to stop or to compare them.
import { ask, base, say, toast } from "./api.js";
import { confirmed } from "./app.js";
import { refresh } from "./live.js";

const table = document.querySelector("[data-jobs]");
const bulk = document.querySelector("[data-bulk]");
// Runs are compared, and only jobs are stopped.
const stop = bulk.querySelector("[data-bulk-stop]");
const MOST_COMPARED = Number(table.dataset.jobs);
const chosen = () => [...table.querySelectorAll("input[type=checkbox]:checked")];

function show() {
  const found = chosen();
  for (const node of table.querySelectorAll("tbody tr")) node.classList.toggle("selected", !!node.querySelector("input[type=checkbox]:checked"));
  bulk.hidden = found.length === 0;
  const many = found.length > MOST_COMPARED;
  bulk.querySelector("[data-count]").textContent = many ? say("compare_most", found.length, MOST_COMPARED) : say("chosen", found.length);
  if (stop) stop.disabled = !found.some((node) => node.dataset.active === "1");
  bulk.querySelector("[data-bulk-compare]").disabled = many || found.length < 2 || found.some((node) => node.dataset.run !== "1");
}
table.addEventListener("change", show);
table.addEventListener("filled", show);

stop?.addEventListener("click", async () => {
  const jobs = chosen().filter((node) => node.dataset.active === "1").map((node) => node.value);
  if (!(await confirmed(say("stop_several", jobs.length), say("stop_several_text"), say("stop")))) return;
  try {
    for (const one of await ask("POST", "/jobs/stop", { jobs })) if (one.problem) toast(one.problem, true);
  } catch (problem) {
    toast(problem.message, true);
  }
  for (const node of chosen()) node.checked = false;
  show();
  await refresh();
});
bulk.querySelector("[data-bulk-compare]").addEventListener("click", () => {
  const names = chosen().map((node) => node.value).reverse();
  location.assign(`${base}/compare?${names.map((name) => `run=${name}`).join("&")}`);
});

// Filters work as one types; the button is for whoever has no script.
const form = document.querySelector("[data-filter]");
form.querySelector("button[type=submit]").hidden = true;
for (const node of form.querySelectorAll("select")) node.addEventListener("change", () => form.requestSubmit());
