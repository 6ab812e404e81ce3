// One's own public keys, and what one is told of one's jobs.
import { ask, make, say, toast } from "./api.js";

const forms = {
  async key(_form, values) {
    await ask("PUT", `/ssh-keys/${encodeURIComponent(values.name)}`, { key: values.key });
    location.reload();
  },
  async notices(form, values) {
    const browser = values.browser === "on";
    if (browser && (await Notification.requestPermission()) !== "granted") throw new Error(say("notices_refused"));
    const events = new FormData(form).getAll("events");
    const language = document.documentElement.lang;
    const made = await ask("PUT", "/notices/settings", { events, browser, language, mail: values.mail ?? "", webhook: values.webhook ?? "" });
    if (made.webhook_key) form.append(make("p", { className: "secret" }, say("webhook_key"), " ", make("code", {}, made.webhook_key)));
    toast(say("saved"));
  },
};

for (const form of document.querySelectorAll("form[data-own]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const error = form.querySelector(".error");
    error.hidden = true;
    try {
      await forms[form.dataset.own](form, Object.fromEntries(new FormData(form)));
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
  });
}

document.addEventListener("click", async (event) => {
  const node = event.target.closest("[data-remove-key]");
  if (!node) return;
  try {
    await ask("DELETE", `/ssh-keys/${encodeURIComponent(node.dataset.removeKey)}`);
    location.reload();
  } catch (problem) {
    toast(problem.message, true);
  }
});
