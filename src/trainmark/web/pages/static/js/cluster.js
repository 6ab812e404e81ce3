// What `doctor` finds at a site, when an administrator asks.
import { ask, make, say } from "./api.js";

for (const button of document.querySelectorAll("[data-check]")) {
  button.addEventListener("click", async () => {
    const place = document.querySelector(`[data-findings="${CSS.escape(button.dataset.check)}"]`);
    button.disabled = true;
    place.replaceChildren(make("p", { className: "hint" }, say("checking")));
    try {
      const found = await ask("GET", `/sites/${encodeURIComponent(button.dataset.check)}/check`);
      place.replaceChildren(
        make(
          "ul",
          { className: "findings" },
          ...found.map((one) => make("li", { className: one.level || "" }, make("strong", {}, one.name || one.what || ""), " ", one.text || one.found || one.detail || "")),
        ),
      );
    } catch (problem) {
      place.replaceChildren(make("p", { className: "error" }, problem.message));
    } finally {
      button.disabled = false;
    }
  });
}
