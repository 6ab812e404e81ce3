// What runs beside a job: started if need be, then opened in a tab of its own, on a host name of its own.
import { ask, make, say, toast } from "./api.js";
import { refresh } from "./live.js";

const place = document.querySelector("[data-endpoints]");
const path = (name) => `/jobs/${place.dataset.endpoints}/endpoints/${name}`;

async function enter(name, state) {
  // At once: a tab that is opened later, without a click, would be refused. It must not know this page.
  const tab = name === "ssh" ? null : window.open("about:blank");
  if (tab) tab.opener = null;
  try {
    if (state === "closed" || state === "ended") await ask("PUT", path(name));
    const made = await ask("POST", `${path(name)}/enter`);
    if (name === "ssh") show(made.command);
    else if (tab) tab.location.replace(made.url);
  } catch (problem) {
    tab?.close();
    toast(problem.message, true);
  }
}

function show(command) {
  const copy = make("button", { type: "button", className: "button" }, say("copy"));
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = say("copied");
  });
  const close = make("button", { type: "button", className: "button primary" }, say("done"));
  const box = make("dialog", { className: "broad" }, make("h2", {}, "SSH"), make("p", {}, say("ssh_text")), make("p", { className: "secret" }, make("code", {}, command), copy), make("div", { className: "buttons" }, close));
  box.setAttribute("aria-label", "SSH");
  close.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

place.addEventListener("click", async (event) => {
  const node = event.target.closest("[data-endpoint]");
  if (!node) return;
  node.disabled = true;
  try {
    if (node.dataset.endpoint === "enter") await enter(node.dataset.name, node.dataset.state);
    else await ask("DELETE", path(node.dataset.name));
  } catch (problem) {
    toast(problem.message, true);
  }
  node.disabled = false;
  await refresh();
});
