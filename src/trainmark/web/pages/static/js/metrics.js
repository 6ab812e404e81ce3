// Curves of an attempt, live: samples of its nodes once a second, and the steps that were measured.
import { api, ask, make, say } from "./api.js";

const root = document.querySelector("[data-metrics]");
const at = (name) => root.querySelector(`[data-${name}]`);
const job = root.dataset.metrics;
// Of a node's samples, the newest bytes: some hours of them.
const MOST = 4 << 20;
// Steps are counted: their axis has no halves.
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000];
const colours = ["s1", "s2", "s3", "s4", "s5", "s6"];
const colour = (index) => getComputedStyle(document.documentElement).getPropertyValue(`--${colours[index % 6]}`).trim();
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const sync = globalThis.uPlot.sync("job");
let over = root.dataset.ended === "1";

// Title, unit, and what each sample gives: name of a curve → value.
const percent = (value) => (value === null || value === undefined ? null : value * 100);
const mega = (value) => (value === null || value === undefined ? null : value / 1e6);
const giga = (value) => (value === null || value === undefined ? null : value / 1e9);
const PANELS = [
  ["steps", say("m_steps"), "1/s", (one) => one.rate],
  ["cpu", say("m_cpu"), "%", (one) => ({ [say("m_host")]: percent(one.cpu), ...of_ranks(one, (rank) => percent(rank.cpu)) })],
  ["memory", say("m_memory"), "GB", (one) => ({ [say("m_host")]: giga(one.mem_used), ...of_ranks(one, (rank) => giga(rank.rss)) })],
  ["device", say("m_device"), "%", (one) => of_devices(one, (device) => percent(device.util ?? device.utilisation))],
  ["device_memory", say("m_device_memory"), "GB", (one) => of_devices(one, (device) => giga(device.mem_used ?? device.memory_used))],
  ["temperature", say("m_temperature"), "°C", (one) => of_devices(one, (device) => device.temp ?? device.temperature ?? null)],
  ["power", say("m_power"), "W", (one) => ({ ...(one.power_w === null || one.power_w === undefined ? {} : { [say("m_host")]: one.power_w }), ...of_devices(one, (device) => device.power ?? device.power_w ?? null) })],
  ["disk", say("m_disk"), "MB/s", (one) => ({ [say("m_read")]: mega(one.disk_read), [say("m_write")]: mega(one.disk_write) })],
  ["network", say("m_network"), "MB/s", (one) => ({ [say("m_received")]: mega(one.net_rx), [say("m_sent")]: mega(one.net_tx) })],
];

function of_ranks(one, value) {
  const found = Object.entries(one.ranks || {}).slice(0, 16);
  return Object.fromEntries(found.map(([rank, about]) => [say("rank", rank), value(about)]));
}

function of_devices(one, value) {
  const found = Array.isArray(one.devices) ? one.devices.map((device, index) => [device.index ?? index, device]) : Object.entries(one.devices || {});
  return Object.fromEntries(found.slice(0, 16).map(([name, device]) => [say("device", name), value(device)]).filter(([, figure]) => figure !== null && figure !== undefined));
}

class Panel {
  // `steps`: x counts steps, so it shares neither time nor cursor with the others.
  constructor(title, unit, steps = false) {
    this.title = title;
    this.unit = unit;
    this.steps = steps;
    this.names = [];
    this.plot = null;
    this.legend = make("ul", { className: "legend" });
    this.place = make("div", { className: "plot" });
    this.box = make("figure", { className: "card chart", hidden: true }, make("figcaption", {}, title, " ", make("span", { className: "muted" }, unit)), this.legend, this.place);
    at("charts").append(this.box);
  }

  // Columns: x, then one for each name.
  show(names, columns) {
    const drawn = columns.slice(1).some((column) => column.some((value) => value !== null && value !== undefined));
    this.box.hidden = !drawn;
    if (!drawn) return;
    if (names.join("\n") !== this.names.join("\n")) this.build(names);
    const whole = this.steps || !zoomed;
    this.plot.setData(columns, whole);
    if (!whole) this.plot.setScale("x", zoomed);
    this.values(null);
  }

  build(names) {
    this.plot?.destroy();
    this.names = names;
    const axis = { stroke: ink("muted"), grid: { stroke: ink("grid"), width: 1 }, ticks: { stroke: ink("grid"), width: 1 }, font: "11px system-ui" };
    this.plot = new globalThis.uPlot(
      {
        width: Math.max(240, this.place.clientWidth || 400),
        height: 190,
        legend: { show: false },
        cursor: { ...(this.steps ? {} : { sync: { key: sync.key } }), drag: { x: !this.steps, y: false }, points: { size: 6 } },
        scales: { x: { time: false }, y: { range: (_plot, low, high) => (high === null ? [0, 1] : [Math.min(0, low), high <= 0 ? 1 : high * 1.08]) } },
        axes: [{ ...axis, size: 28, ...(this.steps ? { incrs: WHOLE } : {}), values: (_plot, ticks) => ticks.map(this.steps ? String : clock) }, { ...axis, size: 52, values: (_plot, ticks) => ticks.map(short) }],
        series: [{}, ...names.map((name, index) => ({ label: name, stroke: colour(index), width: 1.5, points: { show: false }, spanGaps: false }))],
        hooks: {
          setCursor: [(plot) => this.values(plot.cursor.idx)],
          setSelect: [(plot) => plot.select.width > 4 && zoom({ min: plot.posToVal(plot.select.left, "x"), max: plot.posToVal(plot.select.left + plot.select.width, "x") })],
        },
      },
      [[], ...names.map(() => [])],
      this.place,
    );
    this.legend.replaceChildren(...names.map((name, index) => make("li", { className: `line s${(index % 6) + 1}` }, `${name} `, make("strong", {}))));
    const last = this.place.querySelector(".uplot");
    last.setAttribute("role", "img");
    last.setAttribute("aria-label", `${this.title}: ${names.join(", ")}`);
  }

  values(index) {
    if (!this.plot) return;
    const where = index ?? this.plot.data[0].length - 1;
    [...this.legend.children].forEach((node, number) => {
      const column = this.plot.data[number + 1] || [];
      let from = where;
      while (from > 0 && column[from] === undefined) from--; // another node's row
      const value = column[from];
      node.lastChild.textContent = value === null || value === undefined ? "" : short(value);
    });
  }
}

const short = (value) => (Math.abs(value) >= 100 || value === 0 ? Math.round(value).toString() : Math.abs(value) >= 1 ? value.toFixed(1) : value.toPrecision(2));
const clock = (seconds) => (seconds >= 120 ? `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}` : `${short(seconds)} s`);

const panels = new Map();
let zoomed = null;
function zoom(range) {
  zoomed = range;
  at("whole").hidden = range === null;
  for (const panel of panels.values()) {
    if (!panel.plot || panel.steps) continue;
    if (range) panel.plot.setScale("x", range);
    else panel.plot.setData(panel.plot.data);
    panel.plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }
}
at("whole").addEventListener("click", () => zoom(null));

// The attempts of a job, the newest first, each with the samples of its nodes.
let attempts = [];
let chosen = null;
async function find() {
  const { run } = await ask("GET", `/jobs/${job}/files`);
  const found = new Map();
  for (const file of run) {
    const parts = /^(.+)\/round(\d+)\/attempt(\d+)\/([^/]+)\/samples\.jsonl$/.exec(file.path);
    if (!parts) continue;
    const key = file.path.slice(0, file.path.lastIndexOf("/", file.path.lastIndexOf("/") - 1));
    if (!found.has(key)) found.set(key, { key, name: say("attempt_name", parts[1].replaceAll("+", ":"), parts[2], parts[3]), changed: 0, files: [] });
    const one = found.get(key);
    one.changed = Math.max(one.changed, file.changed);
    one.files.push(file);
  }
  attempts = [...found.values()].sort((one, other) => other.changed - one.changed);
  const select = at("attempt");
  const wanted = attempts.map((one) => one.key).join();
  if (select.dataset.keys !== wanted) {
    select.dataset.keys = wanted;
    select.replaceChildren(...attempts.map((one) => new Option(one.name, one.key)));
    if (chosen && attempts.some((one) => one.key === chosen)) select.value = chosen;
  }
}
at("attempt").addEventListener("change", (event) => {
  chosen = event.target.value;
  nodes = new Map();
  zoom(null);
  turn();
});

// Of each node: how far its file was read, and its samples. Another attempt has a map of its own, so that an answer that
// comes late goes nowhere.
let nodes = new Map();
// Turns that wait for answers; two at once would read the same bytes twice.
let reading = Promise.resolve();
async function read(file) {
  let node = nodes.get(file.path);
  if (!node) nodes.set(file.path, (node = { at: Math.max(0, file.bytes - MOST), rest: "", samples: [], skip: file.bytes > MOST }));
  const address = api(`/jobs/${job}/files/run/${file.path.split("/").map(encodeURIComponent).join("/")}`);
  const answer = await fetch(address, { headers: { range: `bytes=${node.at}-` } });
  if (answer.status === 416) return;
  if (!answer.ok) throw new Error(answer.statusText);
  const data = new Uint8Array(await answer.arrayBuffer());
  node.at += data.length;
  const found = (node.rest + new TextDecoder().decode(data)).split("\n");
  node.rest = found.pop();
  if (node.skip) found.shift();
  node.skip = false;
  for (const line of found) {
    try {
      add(node, JSON.parse(line));
    } catch {
      // A line that was half written when its node died.
    }
  }
}

function add(node, one) {
  if (!("t" in one)) return; // the first line tells the units
  const before = node.samples.at(-1);
  const rate = {};
  for (const [rank, count] of Object.entries(one.steps || {})) {
    const past = before?.steps?.[rank];
    const seconds = before ? (one.t - before.t) / 1e9 : 0;
    if (typeof count === "number" && typeof past === "number" && seconds > 0) rate[say("rank", rank)] = (count - past) / seconds;
  }
  one.rate = rate;
  node.samples.push(one);
}

function show() {
  const several = nodes.size > 1;
  const begin = Math.min(...[...nodes.values()].map((node) => node.samples[0]?.t ?? Infinity));
  for (const [key, title, unit, value] of PANELS) {
    const rows = [];
    const hosts = new Map(); // of each name, whose samples give it
    let number = 0;
    for (const [path, node] of nodes) {
      const host = path.split("/").at(-2).replace(/_noderank\d+$/, "");
      number++;
      if (number > 8) break;
      for (const sample of node.samples) {
        const values = value(sample) || {};
        const named = several ? Object.fromEntries(Object.entries(values).map(([name, figure]) => [`${host} ${name}`, figure])) : values;
        for (const name of Object.keys(named)) hosts.set(name, path);
        rows.push([(sample.t - begin) / 1e9, path, named]);
      }
    }
    rows.sort((one, other) => one[0] - other[0]);
    const listed = [...hosts.keys()];
    // `undefined`: the row is another node's, and the line goes on; `null`: this node has no figure here, a gap.
    const column = (name) => rows.map(([, path, values]) => values[name] ?? (path === hosts.get(name) ? null : undefined));
    const columns = [rows.map(([x]) => x), ...listed.map(column)];
    if (!panels.has(key)) panels.set(key, new Panel(title, unit));
    panels.get(key).show(listed, columns);
  }
}

// Losses, times of steps and waits for data, rank over rank: name there, key here, unit, factor.
const CURVES = [
  ["loss", "loss", say("m_by_step"), 1],
  ["step time", "step_time", say("m_ms_by_step"), 1000],
  ["data wait", "data_wait", say("m_ms_by_step"), 1000],
];
async function curves() {
  if (!root.dataset.run || (chosen && chosen !== attempts[0]?.key)) return;
  const found = await ask("GET", `/runs/${encodeURIComponent(root.dataset.run)}/curves`);
  for (const [name, key, unit, factor] of CURVES) {
    const whole = found.curves.filter((one) => one.name === name);
    const of_each = found.ranks.filter((one) => one.name === name).slice(0, 16);
    const drawn = of_each.length ? of_each : whole.map((one) => ({ ...one, rank: null }));
    if (!drawn.length || !drawn[0].x.length) continue;
    if (!panels.has(key)) panels.set(key, new Panel(say(`m_${key}`), unit, true));
    const steps = [...new Set(drawn.flatMap((one) => one.x))].sort((one, other) => one - other);
    const columns = drawn.map((one) => {
      const at = new Map(one.x.map((step, index) => [step, one.y[index]]));
      return steps.map((step) => (at.has(step) ? (at.get(step) === null ? null : at.get(step) * factor) : undefined));
    });
    const names = drawn.map((one) => (one.rank === null ? say(`m_${key}`) : say("rank", one.rank)));
    panels.get(key).show(names, [steps, ...columns]);
  }
}

let turns = 0;
const turn = () => (reading = reading.then(turn_once));
async function turn_once() {
  try {
    if (turns % 5 === 0 || !attempts.length) await find();
    const current = attempts.find((one) => one.key === chosen) || attempts[0];
    if (current && !chosen && nodes.size && !nodes.has(current.files[0].path)) nodes = new Map();
    if (current) {
      await Promise.all(current.files.slice(0, 8).map(read));
      show();
      at("charts").dataset.samples = [...nodes.values()].reduce((sum, node) => sum + node.samples.length, 0);
    }
    if (turns % 5 === 0) await curves();
    at("status").textContent = !current ? say("metrics_wait") : over ? "" : say("console_live");
    turns++;
  } catch (problem) {
    at("status").textContent = problem.message;
  }
}

addEventListener("resize", () => {
  for (const panel of panels.values()) panel.plot?.setSize({ width: Math.max(240, panel.place.clientWidth), height: 190 });
});
async function has_ended() {
  try {
    return !["PENDING", "RUNNING"].includes((await ask("GET", `/jobs/${job}`)).job.state);
  } catch {
    return false; // the server is away: it is asked again
  }
}
async function go() {
  for (;;) {
    if (!document.hidden) await turn();
    if (over) return;
    await new Promise((resume) => setTimeout(resume, 1000));
    if (turns % 5 === 0) over = await has_ended();
  }
}
go();
