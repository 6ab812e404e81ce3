// What ranks write, live: opens at the end, reads backwards as one scrolls up, keeps only what is looked at.
import { api, ask, follow, make, say } from "./api.js";
import { draw, overwritten, plain } from "./ansi.js";

const root = document.querySelector("[data-console]");
const at = (name) => root.querySelector(`[data-${name}]`);
const job = root.dataset.console;
const [screen, pad, rows] = [at("screen"), at("pad"), at("lines")];
// Bytes that are read at once and at the opening; lines that are kept; letters of a line that are shown.
const [PIECE, FIRST, MOST_LINES, MOST_LETTERS] = [1 << 18, 1 << 17, 200_000, 4000];
const HEIGHT = 20;

let lines = [];
let ranks = [];
let rank = null;
let stop = () => {};
let generation = 0;
// Settled when the end of the log is there.
let opened = Promise.resolve();
const size = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);

// Of each rank: its file, how much of it there is, from which byte on it is loaded, and a line that has no end yet.
const logs = new Map();

// `more`: letters of it that were not kept.
function cut(text, more = 0) {
  const left = Math.max(0, text.length - MOST_LETTERS) + more;
  return left ? text.slice(0, MOST_LETTERS) + say("cut", left) : text;
}

// A progress bar is cut after it wrote over itself: what it says last is what is shown.
const entry = (log, line, more = 0) => ({ rank: log.rank, text: cut(overwritten(line), more) });

function split(log, text, final) {
  const whole = (log.rest + text).split("\n");
  if (overwritten(whole[0]).length < whole[0].replace(/\r+$/, "").length) log.dropped = 0;
  const rest = final ? "" : whole.pop();
  if (final && whole.at(-1) === "") whole.pop();
  const found = whole.map((line, index) => entry(log, line, index ? 0 : log.dropped));
  if (whole.length) log.dropped = 0;
  // A line of many megabytes is kept only as far as it is shown; a return at its end still counts.
  const open = overwritten(rest);
  log.dropped += Math.max(0, open.length - MOST_LETTERS);
  log.rest = open.slice(0, MOST_LETTERS) + (rest.endsWith("\r") ? "\r" : "");
  return found;
}

async function range(log, from, to) {
  const answer = await fetch(api(`/jobs/${job}/files/run/${log.path}`), { headers: { range: `bytes=${from}-${to - 1}` } });
  if (answer.status === 416) return new Uint8Array();
  if (!answer.ok) throw new Error(answer.statusText);
  return new Uint8Array(await answer.arrayBuffer());
}

// The newest attempt is the one whose log changed last.
async function find_files() {
  const { run } = await ask("GET", `/jobs/${job}/files`);
  const found = run.map((one) => ({ ...one, name: /^(.*)\/[^/]+\/rank(\d+)\.out\.log$/.exec(one.path) })).filter((one) => one.name);
  const newest = found.reduce((best, one) => (!best || one.changed > best.changed ? one : best), null);
  return newest ? found.filter((one) => one.name[1] === newest.name[1]) : [];
}

async function open() {
  const mine = ++generation;
  stop();
  lines = [];
  logs.clear();
  draw_rows();
  let files = await find_files();
  ranks = files.map((one) => Number(one.name[2])).sort((one, other) => one - other);
  fill_ranks();
  if (rank !== null) files = files.filter((one) => Number(one.name[2]) === rank);
  for (const file of files) {
    const number = Number(file.name[2]);
    logs.set(number, { rank: number, path: file.path.split("/").map(encodeURIComponent).join("/"), end: file.bytes, from: file.bytes, rest: "", dropped: 0 });
  }
  await Promise.all([...logs.values()].map((log) => earlier(log, files.length > 4 ? FIRST / 8 : FIRST, mine)));
  if (mine !== generation) return;
  show_size();
  at("status").textContent = files.length ? "" : say("console_waits");
  bottom();
  const last = [...logs.values()].map((log) => `${log.rank}:${log.end}`).join(",");
  stop = follow(`/jobs/${job}/logs/stream${rank === null ? "" : `?rank=${rank}`}`, take, { last });
}

// Another piece before what is loaded. Lines of several ranks have no common clock: each piece stays together.
async function earlier(log, most, mine = generation) {
  if (log.from === 0 || log.reading) return 0;
  log.reading = true;
  const from = Math.max(0, log.from - most);
  try {
    const bytes = await range(log, from, log.from);
    if (mine !== generation) return 0;
    let begin = 0;
    if (from > 0) {
      // The piece begins within a line, and perhaps within a letter. A line that is longer than it is shown in pieces.
      const first = bytes.indexOf(0x0a) + 1;
      if (first < bytes.length) begin = first;
      while (begin < Math.min(4, bytes.length) && (bytes[begin] & 0xc0) === 0x80) begin++;
    }
    log.from = Math.min(from + begin, log.from - 1);
    const found = new TextDecoder().decode(bytes.subarray(begin)).split("\n");
    if (found.at(-1) === "") found.pop();
    lines = found.map((line) => entry(log, line)).concat(lines);
    return found.length;
  } finally {
    log.reading = false;
  }
}

function take(kind, piece) {
  if (kind === "end") {
    for (const log of logs.values()) if (log.rest) for (const one of split(log, "", true)) lines.push(one);
    at("status").textContent = say("console_ended");
    draw_rows();
    return "end";
  }
  if (kind !== "log") return undefined;
  if (!logs.has(piece.rank)) {
    logs.set(piece.rank, { rank: piece.rank, path: null, end: 0, from: 0, rest: "", dropped: 0 });
    ranks = [...new Set([...ranks, piece.rank])].sort((one, other) => one - other);
    fill_ranks();
  }
  const log = logs.get(piece.rank);
  log.end = piece.end;
  for (const one of split(log, piece.text, false)) lines.push(one);
  if (lines.length > MOST_LINES) {
    lines.splice(0, lines.length - MOST_LINES);
    for (const one of logs.values()) one.from = 0;
  }
  at("status").textContent = say("console_live");
  show_size();
  schedule();
  return undefined;
}

function show_size() {
  const whole = [...logs.values()].reduce((sum, log) => sum + log.end, 0);
  at("size").textContent = `${say("lines", lines.length.toLocaleString())} · ${size(whole)}`;
}

function fill_ranks() {
  const select = at("rank");
  const wanted = ranks.map(String);
  if ([...select.options].slice(1).map((one) => one.value).join() === wanted.join()) return;
  select.replaceChildren(select.options[0], ...wanted.map((one) => new Option(say("rank", one), one)));
  select.value = rank === null ? "" : String(rank);
}

// Only lines that are seen are elements. Beyond some millions of pixels browsers draw nothing, so tall logs are scaled.
const MOST_PIXELS = 8_000_000;
let waiting = false;
function schedule() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (at("follow").checked) bottom();
    else draw_rows();
  });
}
const tall = () => Math.min(lines.length * HEIGHT, MOST_PIXELS);
const room = () => Math.ceil(screen.clientHeight / HEIGHT);
function first_row() {
  const free = Math.max(1, tall() - screen.clientHeight);
  const most = Math.max(0, lines.length - room() + 1);
  return tall() < MOST_PIXELS ? Math.floor(screen.scrollTop / HEIGHT) : Math.round((screen.scrollTop / free) * most);
}
function bottom() {
  pad.style.height = `${tall() + 8}px`;
  screen.scrollTop = screen.scrollHeight;
  draw_rows();
}
function draw_rows() {
  pad.style.height = `${tall() + 8}px`;
  const from = Math.max(0, Math.min(first_row(), lines.length - 1));
  const seen = lines.slice(from, from + room() + 2);
  const mark = at("search").value.trim().toLowerCase();
  rows.style.transform = `translateY(${tall() < MOST_PIXELS ? from * HEIGHT : screen.scrollTop}px)`;
  rows.replaceChildren(
    ...seen.map((line, index) => {
      const node = make("div", { className: from + index === hit ? "row at" : "row" });
      if (rank === null && ranks.length > 1) node.append(make("span", { className: `who r${line.rank % 6}` }, String(line.rank).padStart(3)));
      draw(node, line.text, mark);
      return node;
    }),
  );
}

let busy = false;
screen.addEventListener("scroll", async () => {
  const below = screen.scrollHeight - screen.scrollTop - screen.clientHeight;
  if (below > HEIGHT * 2 && at("follow").checked && screen.matches(":hover, :focus")) at("follow").checked = false;
  draw_rows();
  if (screen.scrollTop < HEIGHT * 10 && !busy && logs.size && !at("follow").checked) {
    busy = true;
    try {
      await more_above();
    } finally {
      busy = false;
    }
  }
});

async function more_above() {
  if (lines.length > MOST_LINES) return 0;
  let added = 0;
  for (const log of logs.values()) added += await earlier(log, PIECE);
  if (added) {
    if (hit >= 0) hit += added;
    pad.style.height = `${tall() + 8}px`;
    screen.scrollTop += added * HEIGHT;
    draw_rows();
    show_size();
  }
  return added;
}

// Searching goes backwards from the end, and reads on before what is loaded until something is found.
let hit = -1;
async function search(step) {
  const wanted = at("search").value.trim().toLowerCase();
  if (!wanted) {
    hit = -1;
    at("found").textContent = "";
    return draw_rows();
  }
  at("follow").checked = false;
  await opened;
  let index = hit < 0 ? (step < 0 ? lines.length - 1 : 0) : hit + step;
  for (;;) {
    while (index >= 0 && index < lines.length && !plain(lines[index].text).toLowerCase().includes(wanted)) index += step;
    if (index >= 0 || step > 0) break;
    at("found").textContent = say("searching");
    const added = await more_above();
    if (!added) break;
    index = added - 1;
  }
  if (index < 0 || index >= lines.length) {
    at("found").textContent = say("not_found");
    return draw_rows();
  }
  hit = index;
  at("found").textContent = say("found_line", (index + 1).toLocaleString(), lines.length.toLocaleString());
  const most = Math.max(1, lines.length - room() + 1);
  const target = Math.max(0, index - Math.floor(room() / 2));
  screen.scrollTop = tall() < MOST_PIXELS ? target * HEIGHT : (target / most) * (tall() - screen.clientHeight);
  draw_rows();
}

at("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  search(event.shiftKey ? 1 : -1);
});
at("search").addEventListener("input", () => {
  hit = -1;
  draw_rows();
});
at("back").addEventListener("click", () => search(-1));
at("on").addEventListener("click", () => search(1));
at("follow").addEventListener("change", (event) => event.target.checked && bottom());
at("rank").addEventListener("change", (event) => {
  rank = event.target.value === "" ? null : Number(event.target.value);
  const log = logs.get(rank);
  at("download").href = log?.path ? api(`/jobs/${job}/files/run/${log.path}`) : at("download").href;
  at("download").toggleAttribute("download", Boolean(log?.path));
  opened = open().catch(failed);
});
addEventListener("resize", schedule);
const failed = (problem) => {
  at("status").textContent = problem.message;
};
opened = open().catch(failed);
