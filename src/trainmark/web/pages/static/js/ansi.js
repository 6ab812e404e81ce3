// Text with terminal escapes as elements: colours and weights are shown, everything else that a terminal would obey is
// left out. Text only ever becomes text nodes.
const ESCAPE = /\x1b\[([0-9;:?<=>]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

// What stays of a line that a progress bar wrote over and over: what follows its last return.
export function overwritten(text) {
  const line = text.replace(/\r+$/, "");
  const at = line.lastIndexOf("\r");
  return at < 0 ? line : line.slice(at + 1);
}

export const plain = (text) => overwritten(text).replace(ESCAPE, "");

function near(red, green, blue) {
  const light = Math.max(red, green, blue);
  const bits = (red > light / 2 ? 1 : 0) | (green > light / 2 ? 2 : 0) | (blue > light / 2 ? 4 : 0);
  return light < 60 ? 90 : (light > 190 ? 90 : 30) + bits;
}

function of_256(number) {
  if (number < 8) return 30 + number;
  if (number < 16) return 82 + number;
  if (number > 231) return number < 240 ? 90 : 37;
  const value = number - 16;
  return near(Math.floor(value / 36) * 51, (Math.floor(value / 6) % 6) * 51, (value % 6) * 51);
}

function change(style, codes) {
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index];
    if (code === 0) style = { colour: 0, bold: false, dim: false, under: false };
    else if (code === 1) style = { ...style, bold: true };
    else if (code === 2) style = { ...style, dim: true };
    else if (code === 4) style = { ...style, under: true };
    else if (code === 22) style = { ...style, bold: false, dim: false };
    else if (code === 24) style = { ...style, under: false };
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style = { ...style, colour: code };
    else if (code === 39) style = { ...style, colour: 0 };
    else if (code === 38 && codes[index + 1] === 5) {
      style = { ...style, colour: of_256(codes[index + 2] ?? 7) };
      index += 2;
    } else if (code === 38 && codes[index + 1] === 2) {
      style = { ...style, colour: near(codes[index + 2] ?? 0, codes[index + 3] ?? 0, codes[index + 4] ?? 0) };
      index += 4;
    } else if (code === 48) index += codes[index + 1] === 5 ? 2 : 4;
  }
  return style;
}

// `mark`: lower-case text that is shown as found.
export function draw(place, text, mark = "") {
  let style = change({}, [0]);
  const line = overwritten(text);
  let from = 0;
  const put = (piece) => {
    if (!piece) return;
    const names = [style.colour && `c${style.colour}`, style.bold && "bold", style.dim && "dim", style.under && "under"].filter(Boolean);
    let rest = piece;
    for (let at = mark ? rest.toLowerCase().indexOf(mark) : -1; at >= 0; at = rest.toLowerCase().indexOf(mark)) {
      add(rest.slice(0, at), names);
      add(rest.slice(at, at + mark.length), [...names, "hit"]);
      rest = rest.slice(at + mark.length);
    }
    add(rest, names);
  };
  function add(piece, names) {
    if (!piece) return;
    if (!names.length) return place.append(piece);
    const node = document.createElement(names.includes("hit") ? "mark" : "span");
    node.className = names.join(" ");
    node.textContent = piece;
    place.append(node);
  }
  for (const found of line.matchAll(ESCAPE)) {
    put(line.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") style = change(style, found[1].split(/[;:]/).map(Number));
  }
  put(line.slice(from));
}
