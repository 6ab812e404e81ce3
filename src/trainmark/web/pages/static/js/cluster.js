// What `doctor` finds at a site, when an administrator asks.
import { base, make, say } from "./api.js";

for (const button of document.querySelectorAll("[data-check]")) {
  button.addEventListener("click", async () => {
    const name = button.dataset.check;
    const place = document.querySelector(`[data-findings="${CSS.escape(name)}"]`);
    button.disabled = true;
    place.replaceChildren(make("p", { className: "hint" }, say("checking")));
    try {
      const answer = await fetch(`${base}/parts/cluster/${encodeURIComponent(name)}/check`, { headers: { accept: "text/plain" } });
      if (!answer.ok) throw new Error((await answer.json()).detail);
      // Escaped by the server's templates, as the page itself was.
      place.innerHTML = await answer.text();
    } catch (problem) {
      place.replaceChildren(make("p", { className: "error" }, problem.message));
    } finally {
      button.disabled = false;
    }
  });
}
