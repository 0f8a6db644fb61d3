// The list of live streams: asks the gateway every few seconds while the page is seen.

import { copyLine, element, path, rtmpBase, root, span, urls } from "./common.js";

const POLL_MS = 3000;
const HIDDEN_POLL_MS = 30000;

const list = document.getElementById("streams");
const empty = document.getElementById("empty");
const count = document.getElementById("count");
const cards = new Map();

function describe(stream) {
  const parts = [];
  if (stream.video) {
    const { codec, width, height } = stream.video;
    parts.push(width ? `${codec} ${width}×${height}` : codec);
  }
  if (stream.audio) parts.push(stream.audio.codec);
  if (stream.live) parts.push(`${(stream.bitrate_bps / 1e6).toFixed(1)} Mbit/s`);
  parts.push(stream.viewers === 1 ? "1 viewer" : `${stream.viewers} viewers`, `for ${span(stream.since_s)}`);
  return parts.join(" · ");
}

function card(stream) {
  let made = cards.get(stream.name);
  if (!made) {
    const [badge, name, about] = ["span", "strong", "span"].map((tag) => element(tag));
    name.textContent = stream.name;
    about.className = "quiet";
    const link = element("a", { className: "card", href: urls(stream.name).page }, badge, name, about);
    made = { item: element("li", {}, link), badge, about };
    cards.set(stream.name, made);
  }
  made.badge.className = stream.live ? "badge" : "badge away";
  made.badge.textContent = stream.live ? "● LIVE" : "○ PUBLISHER AWAY";
  made.about.textContent = describe(stream);
  return made.item;
}

function show({ total, streams }) {
  const names = new Set(streams.map((stream) => stream.name));
  for (const [name, { item }] of cards) {
    if (!names.has(name)) {
      item.remove();
      cards.delete(name);
    }
  }
  streams.forEach((stream, index) => {
    const item = card(stream);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
  });
  empty.hidden = total > 0;
  say(total === 1 ? "1 stream" : `${total} streams${total > streams.length ? `, ${streams.length} shown` : ""}`);
}

// Spoken by screen readers when it changes, so it is set only then.
function say(text) {
  if (count.textContent !== text) count.textContent = text;
}

async function poll() {
  let again = document.hidden ? HIDDEN_POLL_MS : POLL_MS;
  try {
    const answer = await fetch(new URL("streams.json", root), { cache: "no-store" });
    if (answer.ok) show(await answer.json());
    else if (answer.status === 404) {
      say("This server does not list its streams.");
      again = HIDDEN_POLL_MS;
    } else say("The server is busy; trying again…");
  } catch {
    say("The server cannot be reached; trying again…");
  }
  timer = setTimeout(poll, again);
}

let timer;
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    clearTimeout(timer);
    poll();
  }
});

document.getElementById("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = path(document.getElementById("name").value.trim());
  if (name.includes("/")) location.assign(new URL(name, root));
});

const base = rtmpBase();
document.getElementById("publish").append(
  ...(base
    ? [
        copyLine("OBS: server", `${base}/live`),
        copyLine("OBS: stream key", "demo"),
        copyLine("ffmpeg", `ffmpeg -re -i FILE -c copy -f flv "${base}/live/demo"`),
      ]
    : []),
);
poll();
