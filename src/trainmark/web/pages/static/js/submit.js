// A job's specification as a form and as YAML; each changes the other. What is sent is what the YAML says.
import { ask, base, make, say, toast } from "./api.js";

const yaml = globalThis.jsyaml;
const data = JSON.parse(document.getElementById("data").textContent);
const form = document.querySelector("[data-submit]");
const text = form.querySelector("[data-yaml]");
const at = (name) => form.elements.namedItem(name);
const NUMBERS = ["nodes", "devices", "processes", "priority", "seconds"];
// Seconds, or as people write them: 90, 2h.
const TIMES = ["time_limit", "keep_open"];
const FIELDS = ["name", ...NUMBERS, ...TIMES, "preset", "site", "device", "image", "visibility", "run_on"];
const CHECKS = ["distributed", "preemptible"];
// What a benchmark says by its case id, or has no use for.
const COMMAND_ONLY = ["command", "env", "device", "nodes", "devices", "processes", "image", "distributed", "run_on", "keep_open", "secrets", "mounts", "endpoints", "ports"];
const ONLY = { command: COMMAND_ONLY, benchmark: ["suite", "preset", "seconds", "set"], automl: ["automl"] };
const kind_of = (one) => (one.command ?? null) !== null ? "command" : (one.automl ?? null) !== null ? "automl" : "benchmark";

let spec = data.spec;
let kind = kind_of(spec);
// What the YAML says, as it was read last.
let said = {};
// Of a case id, what follows `@`; the form has no field for it.
let variant = "";
let kept = { command: spec.command || "python train.py\n", suite: spec.suite || "quick", automl: spec.automl || "demo" };

function keep(one) {
  for (const name of ["command", "suite", "automl"]) if (one[name]) kept[name] = one[name];
}

// Only what differs from what holds anyway.
function short(whole) {
  const unused = Object.keys(ONLY).filter((one) => one !== kind).flatMap((one) => ONLY[one]);
  const found = {};
  for (const [name, value] of Object.entries(whole)) {
    if (unused.includes(name) || value === null || value === undefined) continue;
    if (name !== "name" && JSON.stringify(value) === JSON.stringify(data.defaults[name])) continue;
    found[name] = value;
  }
  return found;
}

function write_yaml() {
  text.value = yaml.dump(short(spec), { lineWidth: -1, noRefs: true });
  hide_errors();
}

// YAML → form.

function read_yaml() {
  hide_errors();
  let found;
  try {
    found = yaml.load(text.value, { schema: yaml.JSON_SCHEMA });
  } catch (problem) {
    const line = problem.mark ? problem.mark.line + 1 : 1;
    show_error("yaml", say("yaml_line", line, problem.reason || problem.message));
    return false;
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    show_error("yaml", say("yaml_mapping"));
    return false;
  }
  const unknown = Object.keys(found).filter((name) => !(name in data.defaults));
  if (unknown.length) {
    show_error("yaml", say("yaml_unknown", unknown.join(", ")));
    return false;
  }
  said = found;
  spec = { ...data.defaults, ...found };
  kind = kind_of(found);
  keep(spec);
  fill();
  return true;
}

// What a list does not offer is put into it: it may be new, or another server's, and the API says what is wrong with it.
function choose(select, value) {
  const wanted = String(value);
  if (wanted !== "" && ![...select.options].some((one) => one.value === wanted)) select.append(new Option(wanted, wanted));
  select.value = wanted;
}

function fill() {
  for (const name of FIELDS) {
    const [node, value] = [at(name), spec[name] ?? ""];
    if (node.tagName === "SELECT") choose(node, value);
    else node.value = value;
  }
  for (const name of CHECKS) at(name).checked = Boolean(spec[name]);
  at("command").value = kept.command;
  at("env").value = Object.entries(spec.env || {}).map(([name, value]) => `${name}=${value}`).join("\n");
  fill_suite();
  const own = typeof kept.automl === "object";
  at("automl").querySelector("[value=':own']").hidden = !own;
  at("automl").value = own ? ":own" : kept.automl;
  show_kind();
}

function fill_suite() {
  const suite = spec.suite ?? kept.suite;
  const select = at("suite");
  if (typeof suite === "object") {
    select.querySelector("[value=':own']").hidden = false;
    select.value = ":own";
  } else if (suite.includes(":")) {
    select.value = ":case";
    const mark = suite.indexOf("@");
    variant = mark < 0 ? "" : suite.slice(mark);
    const [workload, framework, device, nodes, processes, rounds] = suite.split("@")[0].split(":");
    choose(at("workload"), workload);
    fill_frameworks(framework);
    choose(at("case_device"), device || "auto");
    at("case_nodes").value = nodes || "1";
    at("case_processes").value = processes || "auto";
    at("case_rounds").value = rounds || "3";
  } else choose(select, suite);
}

function fill_frameworks(wanted) {
  const found = data.workloads.find((one) => one.name === at("workload").value);
  at("framework").replaceChildren(...(found?.frameworks || []).map((name) => new Option(name, name)));
  if (wanted) choose(at("framework"), wanted);
}

function show_kind() {
  for (const node of form.querySelectorAll("[data-kind]")) node.setAttribute("aria-pressed", String(node.dataset.kind === kind));
  for (const node of form.querySelectorAll("[data-for]")) node.hidden = node.dataset.for !== kind;
  text.rows = Math.min(30, Math.max(12, text.value.split("\n").length + 1));
  form.querySelector("[data-suite-title]").textContent = data.suites.find((one) => one.name === at("suite").value)?.title ?? "";
  form.querySelector("[data-case]").hidden = at("suite").value !== ":case";
  form.querySelector("[data-distributed]").hidden = !at("distributed").checked;
  show_free();
}

// What is free now where the job is to run.
function show_free() {
  const site = data.sites.find((one) => one.name === at("site").value);
  const free = data.free.find((one) => one.site === at("site").value);
  const lines = [];
  if (free && free.count !== null) lines.push(say("free_now", free.free, free.count, free.device, free.hosts));
  else if (site?.queue === "scheduler") lines.push(say("free_scheduler"));
  if (site && !site.allowed) lines.push(say("site_closed", site.name));
  form.querySelector("[data-free]").textContent = lines.join(" ");
  draw_shape(data.hosts.filter((one) => one.sites.includes(at("site").value)));
}

// The shape of the job over the hosts as they are now: a click on a device asks for as many nodes and devices. Whoever
// has no pointer writes the numbers.
const [MOST_NODES, MOST_DEVICES] = [12, 16];
function draw_shape(hosts) {
  const [nodes, devices] = [Number(at("nodes").value) || 1, Number(at("devices").value) || 1];
  const rows = Math.min(MOST_NODES, Math.max(nodes, hosts.length, 1));
  const place = form.querySelector("[data-slots]");
  place.setAttribute("aria-label", say("shape_is", nodes, devices));
  place.replaceChildren(...Array.from({ length: rows }, (_, row) => {
    const host = hosts[row];
    const columns = Math.min(MOST_DEVICES, Math.max(host?.slots ?? devices, row < nodes ? devices : 1));
    const used = (column) => host?.drained || host?.uses.some((use) => use.slots === null || use.slots.includes(column));
    const cells = Array.from({ length: columns }, (_, column) => {
      const wanted = row < nodes && column < devices;
      const cell = make("i", { className: `cell${wanted ? " wanted" : ""}${used(column) ? " used" : ""}${host?.slots && column >= host.slots ? " beyond" : ""}` });
      cell.addEventListener("click", () => choose_shape(row + 1, column + 1));
      return cell;
    });
    return make("span", { className: "shape-row" }, make("b", {}, host?.name ?? say("node", row + 1)), make("span", {}, ...cells));
  }));
}

function choose_shape(nodes, devices) {
  at("nodes").value = nodes;
  at("devices").value = devices;
  at("processes").value = devices;
  if (nodes > 1) at("distributed").checked = true;
  show_kind();
  read_form();
}

// Form → YAML.

function read_form() {
  const found = { ...spec };
  for (const name of FIELDS) {
    const value = at(name).value;
    const number = NUMBERS.includes(name) || (TIMES.includes(name) && /^[\d.]+$/.test(value));
    found[name] = value === "" ? data.defaults[name] : number ? Number(value) : value;
  }
  for (const name of CHECKS) found[name] = at(name).checked;
  Object.assign(found, { command: null, suite: null, automl: null, env: {} });
  if (kind === "command") {
    found.command = kept.command = at("command").value;
    for (const line of at("env").value.split("\n")) {
      const cut = line.indexOf("=");
      if (cut > 0) found.env[line.slice(0, cut).trim()] = line.slice(cut + 1);
    }
  } else if (kind === "automl") {
    found.automl = kept.automl = at("automl").value === ":own" ? kept.automl : at("automl").value;
  } else {
    const suite = at("suite").value;
    if (suite === ":case") found.suite = ["workload", "framework", "case_device", "case_nodes", "case_processes", "case_rounds"].map((name) => at(name).value).join(":") + variant;
    else if (suite === ":own") found.suite = kept.suite;
    else found.suite = suite;
    kept.suite = found.suite;
  }
  spec = found;
  write_yaml();
}

// Errors at their field: a message of the API begins with the field's name.

function hide_errors() {
  for (const node of form.querySelectorAll("[data-error], [data-error-all]")) node.hidden = true;
  for (const node of form.querySelectorAll("[aria-invalid]")) node.removeAttribute("aria-invalid");
}

function show_error(name, message) {
  const place = form.querySelector(`[data-error="${CSS.escape(name)}"]`);
  if (!place || place.closest("[hidden]:not([data-error])")) return false;
  place.textContent = message;
  place.hidden = false;
  const node = name === "yaml" ? text : at(name);
  if (node instanceof HTMLElement) {
    node.closest("details")?.setAttribute("open", "");
    node.setAttribute("aria-invalid", "true");
    node.focus();
  }
  return true;
}

function refused(problem) {
  const named = /^`?([a-z_]+)`?(?:[.[][^:：]*)?(?: `[^`]*`)?\s*[:：]/.exec(problem.message);
  if (named && show_error(named[1], problem.message)) return;
  const all = form.querySelector("[data-error-all]");
  all.textContent = problem.message;
  all.hidden = false;
  all.scrollIntoView({ block: "nearest" });
}

async function trying(button, act) {
  if (!read_yaml()) return;
  button.disabled = true;
  try {
    await act({ name: "", ...said });
  } catch (problem) {
    refused(problem);
  } finally {
    button.disabled = false;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  trying(form.querySelector("[type=submit]"), async (wanted) => {
    const made = await ask("POST", "/jobs", wanted);
    location.assign(`${base}/jobs/${made.job.id}`);
  });
});

form.querySelector("[data-dry]").addEventListener("click", (event) =>
  trying(event.target, async (wanted) => {
    const plan = await ask("POST", "/jobs/plan", wanted);
    const needs = Object.entries(plan.needs).map(([host, count]) => `${host}: ${count}`).join(", ");
    const parts = [make("p", { className: "hint" }, say("plan_is", plan.cases.length, plan.rounds, needs || "–"))];
    for (const one of plan.cases.slice(0, 50)) {
      const ranks = one.nodes.flatMap((node) => node.ranks.map((rank, index) => `# ${node.host}, ${say("rank", index)}\n${rank.argv.join(" ")}`));
      parts.push(make("details", {}, make("summary", {}, make("code", {}, one.case)), make("pre", { tabIndex: 0 }, ranks.slice(0, 8).join("\n"))));
    }
    form.querySelector("[data-plan-in]").replaceChildren(...parts);
    form.querySelector("[data-plan]").hidden = false;
    form.querySelector("[data-plan]").scrollIntoView({ block: "nearest" });
  }),
);

form.querySelector("[data-keep]").addEventListener("click", (event) =>
  trying(event.target, async (wanted) => {
    await ask("PUT", `/templates/${encodeURIComponent(wanted.name)}`, { spec: wanted, shared: false });
    toast(say("template_kept", wanted.name));
  }),
);

form.querySelector("[data-copy-yaml]").addEventListener("click", async () => {
  await navigator.clipboard.writeText(text.value);
  toast(say("copied"));
});

function take_template(found) {
  spec = { ...data.defaults, ...found.spec };
  kind = kind_of(spec);
  keep(spec);
  fill();
  write_yaml();
}
for (const node of document.querySelectorAll("[data-template]")) {
  node.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[data-template]")) other.setAttribute("aria-pressed", String(other === node));
    take_template(data.templates[node.dataset.template]);
  });
}

for (const node of form.querySelectorAll("[data-kind]")) {
  node.addEventListener("click", () => {
    kind = node.dataset.kind;
    if (/^my-(benchmark|job|search)$/.test(at("name").value)) at("name").value = { command: "my-job", automl: "my-search", benchmark: "my-benchmark" }[kind];
    show_kind();
    read_form();
  });
}
form.addEventListener("input", (event) => {
  if (event.target === text) return void read_yaml();
  if (event.target.name === "workload") {
    variant = ""; // it was the other workload's
    fill_frameworks();
  }
  show_kind();
  read_form();
});

fill_frameworks();
fill();
write_yaml();
