// Moments as the reader's own clock shows them, and durations that go on.
const language = document.documentElement.lang;
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
const exact = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(language, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const pad = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

function ago(date) {
  const seconds = (date - Date.now()) / 1000;
  if (Math.abs(seconds) < 90) return relative.format(Math.round(seconds), "second");
  if (Math.abs(seconds) < 5400) return relative.format(Math.round(seconds / 60), "minute");
  if (Math.abs(seconds) < 86400) return relative.format(Math.round(seconds / 3600), "hour");
  return day.format(date);
}

export function tick(place = document) {
  for (const node of place.querySelectorAll("time[datetime]")) {
    const date = new Date(node.dateTime);
    node.title ||= exact.format(date);
    const text = ago(date);
    if (node.textContent !== text) node.textContent = text;
  }
  for (const node of place.querySelectorAll("[data-since]")) {
    node.textContent = span(Date.now() / 1000 - Number(node.dataset.since));
  }
}

tick();
setInterval(tick, 1000);
