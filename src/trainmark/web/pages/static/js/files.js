// A look at a file without leaving the page: text as text, pictures as pictures, tables as tables.
import { api, make, say } from "./api.js";

const MOST = 1 << 18;
const PICTURES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const MOST_ROWS = 500;

function table(text, mark) {
  const rows = text.split(/\r?\n/).filter(Boolean).slice(0, MOST_ROWS).map((line) => cells(line, mark));
  const [head, ...body] = rows;
  const row = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, tag === "th" ? { scope: "col" } : {}, value)));
  return make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "small" }, make("thead", {}, row("th", head || [])), make("tbody", {}, ...body.map((values) => row("td", values)))));
}

function cells(line, mark) {
  const found = [];
  let [value, quoted] = ["", false];
  for (let index = 0; index < line.length; index++) {
    const letter = line[index];
    if (quoted && letter === '"' && line[index + 1] === '"') {
      value += '"';
      index++;
    } else if (letter === '"') quoted = !quoted;
    else if (letter === mark && !quoted) {
      found.push(value);
      value = "";
    } else value += letter;
  }
  return [...found, value];
}

// Why there is no file: it may have been removed since the page was made.
async function refusal(answer) {
  try {
    return (await answer.json()).detail;
  } catch {
    return answer.statusText;
  }
}

async function shown(address, name) {
  const end = name.split(".").pop().toLowerCase();
  if (PICTURES[end]) {
    const answer = await fetch(api(address));
    if (!answer.ok) throw new Error(await refusal(answer));
    const data = await answer.arrayBuffer();
    const reader = new FileReader();
    const url = await new Promise((done) => {
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(new Blob([data], { type: PICTURES[end] }));
    });
    return [make("img", { src: url, alt: name, className: "picture" })];
  }
  const answer = await fetch(api(address), { headers: { range: `bytes=0-${MOST - 1}` } });
  if (answer.status === 416) return [make("p", { className: "muted" }, say("file_empty"))];
  if (!answer.ok) throw new Error(await refusal(answer));
  const data = new Uint8Array(await answer.arrayBuffer());
  if (data.subarray(0, 4096).includes(0)) return [make("p", { className: "muted" }, say("file_binary"))];
  const text = new TextDecoder().decode(data);
  const whole = Number((answer.headers.get("content-range") || "").split("/")[1] || data.length);
  const note = whole > data.length ? [make("p", { className: "hint" }, say("file_cut", Math.round(data.length / 1000), Math.round(whole / 1000)))] : [];
  if (end === "csv" || end === "tsv") return [table(text, end === "csv" ? "," : "\t"), ...note];
  let pretty = text;
  if (end === "json" && !note.length) {
    try {
      pretty = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      pretty = text;
    }
  }
  return [make("pre", { tabIndex: 0 }, pretty), ...note];
}

document.addEventListener("click", async (event) => {
  const node = event.target.closest("[data-preview]");
  if (!node) return;
  const close = make("button", { type: "button", className: "button" }, say("close"));
  const place = make("div", { className: "preview" }, make("p", { className: "muted" }, say("loading")));
  const box = make("dialog", { className: "broad" }, make("h2", {}, node.dataset.name), place, make("div", { className: "buttons" }, close));
  box.setAttribute("aria-label", node.dataset.name);
  close.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  try {
    place.replaceChildren(...(await shown(node.dataset.preview, node.dataset.name)));
  } catch (problem) {
    place.textContent = problem.message;
  }
});
