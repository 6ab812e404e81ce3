"use strict";
// The report is whole without this: here are the switches, and values under the pointer.
(() => {
  const root = document.documentElement;
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const all = (query, place) => (place || document).querySelectorAll(query);
  const say = (number) => texts[number][root.lang === "zh" ? 1 : 0];

  function speak(language) {
    for (const node of all("[data-lang]")) node.setAttribute("aria-pressed", node.dataset.lang === language);
    // A large page takes a moment to change: it is left alone where it speaks the language already.
    if (root.lang === language) return;
    root.lang = language;
    for (const node of all("[data-t]")) node.textContent = say(node.dataset.t);
    for (const node of all("[data-label]")) node.setAttribute("aria-label", say(node.dataset.label));
  }

  function paint(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    for (const node of all("[data-set-theme]")) node.setAttribute("aria-pressed", node.dataset.setTheme === theme);
  }

  const chinese = (navigator.language || "").toLowerCase().startsWith("zh");
  speak(root.dataset.forced ? root.lang : chinese ? "zh" : "en");
  paint(root.dataset.theme || "auto");
  for (const node of all("[data-lang]")) node.addEventListener("click", () => speak(node.dataset.lang));
  for (const node of all("[data-set-theme]")) node.addEventListener("click", () => paint(node.dataset.setTheme));
  // Where a page shows a report in a frame of its own, it has its own switches.
  for (const node of all(".switches")) node.hidden = false;

  // A link to a case opens it; paper has no use for what is closed.
  function follow() {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", follow);
  follow();
  addEventListener("beforeprint", () => {
    for (const node of all("details")) node.open = true;
  });

  // Above a table: a choice for each column that has several values.
  for (const bar of all(".filters")) {
    const table = bar.nextElementSibling.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    const every = bar.firstElementChild;
    const chosen = new Map();
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const value = (row) => (row.cells[column].querySelector("span") || row.cells[column].lastChild).textContent;
      const values = [...new Set(rows.map(value))].sort();
      if (!head.dataset.filter || values.length < 2) return;
      const name = document.createElement("label");
      const text = document.createElement("span");
      text.textContent = head.textContent;
      if (head.dataset.t) text.dataset.t = head.dataset.t;
      const select = document.createElement("select");
      const first = new Option(every.textContent, "");
      if (every.dataset.t) first.dataset.t = every.dataset.t;
      select.append(first, ...values.map((one) => new Option(one, one)));
      select.addEventListener("change", () => {
        chosen.set(column, [select.value, value]);
        for (const row of rows) row.hidden = [...chosen.values()].some(([want, of]) => want && of(row) !== want);
      });
      name.append(text, select);
      bar.append(name);
    });
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  // "low,high,start,end,log,suffix,unit": where an axis lies in the drawing and what it counts.
  function axis(text) {
    const [low, high, start, end, log, suffix, ...unit] = text.split(",");
    if (log === "2") {
      const place = (at) => +low + ((at - start) / (end - start)) * (high - low);
      return (at) => new Date(1000 * place(at)).toISOString().slice(0, 16).replace("T", " ") + " UTC";
    }
    const ends = [+low, +high].map((value) => (log === "1" ? Math.log10(value) : value));
    // No more digits than a drawing can hold.
    const digits = Math.min(20, Math.max(0, 2 - Math.floor(Math.log10(ends[1] - ends[0]))));
    const rule = log === "1" ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: digits };
    return (place) => {
      const value = ends[0] + ((place - start) / (end - start)) * (ends[1] - ends[0]);
      return (log === "1" ? 10 ** value : value).toLocaleString("en", rule) + suffix + " " + unit.join(",");
    };
  }

  // Stretches of a path are "Mx yl0 0 dx dy…" or "Mx yhdxvdy…", in tenths.
  function points(path) {
    path.points ||= path.getAttribute("d").split("M").slice(1).flatMap((stretch) => {
      const steps = stretch.replace(/h(-?\d+)/g, " $1 0").replace(/v(-?\d+)/g, " 0 $1").match(/-?\d+/g);
      let x = 0, y = 0;
      return Array.from({ length: steps.length / 2 }, (_, index) => {
        x += +steps[2 * index];
        y += +steps[2 * index + 1];
        return [x / 10, y / 10];
      });
    });
    return path.points;
  }

  function nearest(found, x) {
    return found.reduce((best, one) => (Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best));
  }

  function show(svg, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const paths = [...all("path.line, path.hist", svg)];
    const names = [...all(".legend .line", svg.closest("figure"))].map((node) => node.textContent + ": ");
    const hits = paths.map((path) => nearest(points(path), at.x));
    const readX = axis(svg.dataset.x), readY = axis(svg.dataset.y);
    const lines = hits.map((hit, index) => (names[index] || "") + readY(hit[1]).trim());
    tip.textContent = [readX(nearest(hits, at.x)[0]).trim(), ...lines].join("\n");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(innerWidth - box.width - 4, event.clientX + 14)) + "px";
    tip.style.top = Math.max(4, Math.min(innerHeight - box.height - 4, event.clientY + 14)) + "px";
  }

  for (const svg of all("svg[data-x]")) {
    const title = svg.querySelector("title");
    svg.addEventListener("pointermove", (event) => {
      // The browser would show the drawing's title beside the values.
      if (title.isConnected) {
        svg.setAttribute("aria-label", title.textContent);
        title.remove();
      }
      show(svg, event);
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      svg.prepend(title);
      svg.removeAttribute("aria-label");
    });
  }
})();
