// What every page does: menus, signing in and out, buttons that ask the API for one thing.
import { ask, base, make, say, toast } from "./api.js";
import "./times.js";
import { refresh } from "./live.js";

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// A question before something that cannot be undone.
export function confirmed(title, text, action, danger = true) {
  return new Promise((resolve) => {
    const answer = (value) => () => {
      box.close();
      box.remove();
      resolve(value);
    };
    const yes = make("button", { type: "button", className: danger ? "button danger" : "button primary", onclick: answer(true) }, action);
    const no = make("button", { type: "button", className: "button", onclick: answer(false) }, say("cancel"));
    const box = make("dialog", { oncancel: answer(false) }, make("h2", {}, title), make("p", {}, text), make("div", { className: "buttons" }, no, yes));
    box.setAttribute("aria-label", title);
    document.body.append(box);
    box.showModal();
    no.focus();
  });
}

const forms = {
  async "sign-in"(form, values) {
    await ask("POST", "/session", { name: values.name, password: values.password });
    location.assign(base + form.dataset.after);
  },
  async link(_form, values) {
    if (values.password !== values.again) throw new Error(say("passwords_differ"));
    await ask("POST", "/session/link", { link: values.link.trim().split("#").pop(), password: values.password });
    history.replaceState(null, "", location.pathname);
    location.assign(`${base}/`);
  },
  async password(form, values) {
    if (values.new !== values.again) throw new Error(say("passwords_differ"));
    await ask("PUT", "/session/password", { old: values.old, new: values.new });
    form.reset();
    toast(say("password_changed"));
  },
  async "new-user"(form, values) {
    const made = await ask("POST", "/users", { name: values.name, role: values.role });
    form.reset();
    show_link(made.user.name, made.link);
    await refresh();
  },
  async "new-token"(form, values) {
    const scopes = new FormData(form).getAll("scopes");
    const made = await ask("POST", "/tokens", { name: values.name, scopes, days: Number(values.days) });
    form.reset();
    show_secret(say("token_made"), say("token_once"), made.secret, true);
  },
  // With users it is kept for these, without any for nobody.
  async "host-state"(form, values) {
    const users = values.users.split(/[\s,]+/).filter(Boolean);
    const until = values.hours ? Date.now() / 1000 + Number(values.hours) * 3600 : null;
    const wanted = users.length ? { why: values.why, until, users } : { why: values.why, until };
    await ask("PUT", `/hosts/${encodeURIComponent(form.dataset.host)}/${users.length ? "reserve" : "drain"}`, wanted);
    location.reload();
  },
  async group(_form, values) {
    const members = values.members.split(/[\s,]+/).filter(Boolean);
    await ask("PUT", `/groups/${encodeURIComponent(values.name)}`, { members });
    location.reload();
  },
};

function show_link(name, link) {
  show_secret(say("link_made", name), say("link_once"), `${location.origin}${base}/link#${link}`, false);
}

function show_secret(title, text, secret, reload) {
  const copy = make("button", { type: "button", className: "button" }, say("copy"));
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret);
    copy.textContent = say("copied");
  });
  const done = make("button", { type: "button", className: "button primary" }, say("done"));
  const box = make("dialog", {}, make("h2", {}, title), make("p", {}, text), make("p", { className: "secret" }, make("code", {}, secret), copy), make("div", { className: "buttons" }, done));
  box.setAttribute("aria-label", title);
  const close = () => {
    box.close();
    box.remove();
    if (reload) location.reload();
  };
  done.addEventListener("click", close);
  box.addEventListener("cancel", close);
  document.body.append(box);
  box.showModal();
}

for (const form of document.querySelectorAll("form[data-form]")) {
  const act = forms[form.dataset.form];
  if (!act) continue;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const error = form.querySelector(".error");
    const button = form.querySelector("[type=submit]");
    error.hidden = true;
    button.disabled = true;
    try {
      await act(form, Object.fromEntries(new FormData(form)));
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
}

// A link by which a password is set has its secret behind `#`.
const given = document.querySelector("form[data-form=link] [name=link]");
if (given && location.hash.length > 1) {
  given.value = location.hash.slice(1);
  given.closest("label").hidden = true;
  document.querySelector("form[data-form=link] [name=password]").focus();
}

const actions = {
  async "sign-out"() {
    await ask("DELETE", "/session");
    location.assign(`${base}/sign-in`);
  },
  async measure(node) {
    const made = await ask("POST", "/jobs", { name: node.dataset.suite, suite: node.dataset.suite });
    location.assign(`${base}/jobs/${made.job.id}`);
  },
  async stop(node) {
    if (!(await confirmed(say("stop_title"), say("stop_text", node.dataset.name), say("stop")))) return;
    await ask("POST", `/jobs/${node.dataset.job}/stop`);
    toast(say("stop_asked"));
    await refresh();
  },
  async clone(node) {
    const made = await ask("POST", `/jobs/${node.dataset.job}/clone`);
    location.assign(`${base}/jobs/${made.job.id}`);
  },
  async "host-free"(node) {
    await ask("DELETE", `/hosts/${encodeURIComponent(node.dataset.host)}/${node.dataset.kind}`);
    location.reload();
  },
  async accept(node) {
    const made = await ask("POST", `/sites/${encodeURIComponent(node.dataset.site)}/accept`);
    location.assign(`${base}/jobs/${made.job.id}`);
  },
  async "end-token"(node) {
    await ask("DELETE", `/tokens/${node.dataset.id}`);
    location.reload();
  },
  async "user-link"(node) {
    const made = await ask("POST", `/users/${node.dataset.id}/link`);
    show_link(made.user.name, made.link);
  },
  async "user-disable"(node) {
    await ask("PATCH", `/users/${node.dataset.id}`, { disabled: node.dataset.value === "true" });
    await refresh();
  },
  async copy(node) {
    await navigator.clipboard.writeText(node.dataset.text);
    toast(say("copied"));
  },
};

document.addEventListener("click", async (event) => {
  const node = event.target.closest("[data-do]");
  const act = node && actions[node.dataset.do];
  if (!act) return;
  event.preventDefault();
  node.disabled = true;
  try {
    await act(node);
  } catch (problem) {
    toast(problem.message, true);
  } finally {
    node.disabled = false;
  }
});

const changes = {
  async "user-role"(node) {
    await ask("PATCH", `/users/${node.dataset.id}`, { role: node.value });
    toast(say("saved"));
  },
  async priority(node) {
    await ask("PATCH", `/jobs/${node.dataset.job}`, { priority: Number(node.value) });
    toast(say("saved"));
  },
  async visibility(node) {
    await ask("PATCH", `/jobs/${node.dataset.job}`, { visibility: node.value });
    toast(say("saved"));
  },
};

document.addEventListener("change", async (event) => {
  const node = event.target.closest("[data-change]");
  if (!node) return;
  try {
    await changes[node.dataset.change](node);
  } catch (problem) {
    toast(problem.message, true);
    await refresh();
  }
});
