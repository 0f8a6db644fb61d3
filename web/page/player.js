// The player page: waits for the stream, plays it, and starts again whenever it can.

import { copyLine, element, query, sleep, urls } from "./common.js";
import { bufferedEnd, candidates, engines } from "./engines.js";

const PROBE_MS = 2000;
const HIDDEN_PROBE_MS = 10000;
const RESTART_MS = 500;
const TICK_MS = 1000;
// Playback that stands still with media at hand is helped after this many seconds.
const NUDGE_AFTER_S = 3;
const STALLED_AFTER_S = 2;
// With no media at all the connection is taken for dead: longer than a publisher may be away.
const GIVE_UP_AFTER_S = 25;
// Attempts that never showed a picture before another way is tried.
const ATTEMPTS = 3;

const stream = document.body.dataset.stream;
const main = document.getElementById("main");
const video = document.getElementById("video");
const status = document.getElementById("status");
const facts = document.getElementById("facts");
const unmute = document.getElementById("unmute");
const where = urls(stream);
const via = new URLSearchParams(location.search).get("via") ?? "";

let engine = null;
let played = false;

function state(name, text = "") {
  main.dataset.state = name;
  if (status.textContent !== text) status.textContent = text;
  status.hidden = text === "";
}

const REFUSALS = new Map([
  [401, "This stream needs a valid key, link or token: open the page with it, as in ?token=… at the end of its address."],
  [403, "You may not watch this stream from here, or not with this token."],
]);

/** Waits until the gateway has the stream; HEAD starts no viewer there. What it refuses is not tried again. */
async function untilLive() {
  for (;;) {
    try {
      const answer = await fetch(where.flv, { method: "HEAD", cache: "no-store" });
      await answer.arrayBuffer();
      if (answer.ok) return;
      const refusal = REFUSALS.get(answer.status);
      if (refusal) {
        state("failed", refusal);
        await new Promise(() => {});
      }
      if (answer.status === 429) {
        state("waiting", "Too many wrong keys or tokens came from your address. Trying again…");
        await sleep(1000 * Number(answer.headers.get("retry-after") ?? 10));
        continue;
      }
      state("waiting", "This stream is not live yet. It will start here by itself.");
    } catch {
      state("waiting", "The server cannot be reached. Trying again…");
    }
    await sleep(document.hidden ? HIDDEN_PROBE_MS : PROBE_MS);
  }
}

/** Plays once; returns why it was over. */
async function playOnce(name) {
  const { address, start } = engines[name];
  showWay(name === "native" ? "hls" : name);
  played = false;
  let over;
  const ended = new Promise((done) => {
    over = (reason, detail) => done({ reason, detail });
  });
  video.onended = () => over("ended");
  const watch = setInterval(() => supervise(over), TICK_MS);
  try {
    progress = { time: -1, end: -1, still: 0, dry: 0 };
    engine = await start(video, where[address], over);
    play();
    return await ended;
  } catch (error) {
    return { reason: "network", detail: error.message };
  } finally {
    clearInterval(watch);
    video.onended = null;
    engine?.stop();
    engine = null;
    facts.textContent = "";
  }
}

function play() {
  video.play().catch((error) => {
    if (error.name === "NotAllowedError") state("blocked", "Press play to start.");
  });
}

let progress;

/** Notices what the players do not: a hole in the buffer, a connection that died without a word. */
function supervise(over) {
  showFacts();
  if (video.paused || !engine) return;
  const end = bufferedEnd(video);
  progress.still = video.currentTime === progress.time ? progress.still + 1 : 0;
  progress.dry = end <= progress.end && progress.still ? progress.dry + 1 : 0;
  if (played && progress.still >= STALLED_AFTER_S) state("stalled", "Waiting for the stream…");
  progress.time = video.currentTime;
  progress.end = Math.max(end, progress.end);
  if (progress.dry >= GIVE_UP_AFTER_S) over("network", "no media");
  else if (progress.still >= NUDGE_AFTER_S && end > video.currentTime + 0.5) nudge(end);
}

function nudge(end) {
  const ranges = Array.from({ length: video.buffered.length }, (_, i) => video.buffered.start(i));
  const next = ranges.find((start) => start > video.currentTime);
  video.currentTime = next ?? Math.max(video.currentTime, end - 1);
}

function showFacts() {
  const parts = [];
  if (video.videoWidth) parts.push(`${video.videoWidth}×${video.videoHeight}`);
  const delay = engine?.delay();
  if (played && Number.isFinite(delay) && delay >= 0) parts.push(`${delay.toFixed(1)} s behind live`);
  facts.textContent = parts.join(" · ");
}

async function run() {
  const ways = candidates(via, video);
  if (ways.length === 0) {
    state("failed", "This browser can play neither FLV nor HLS. The addresses below work in other players.");
    return;
  }
  let [way, failures] = [0, 0];
  for (;;) {
    await untilLive();
    state("starting", "Starting…");
    const { reason, detail } = await playOnce(ways[way]);
    console.info(`${ways[way]} is over: ${reason}${detail ? ` (${detail})` : ""}`);
    failures = played ? 0 : failures + 1;
    if (!played && (reason === "unsupported" || failures >= ATTEMPTS)) {
      failures = 0;
      way += 1;
      if (way === ways.length) {
        way = 0;
        state("failed", "This browser cannot play the stream this way. Another one below may work.");
        await sleep(HIDDEN_PROBE_MS);
      }
    } else {
      state("waiting", "Reconnecting…");
    }
    await sleep(RESTART_MS + Math.random() * RESTART_MS);
  }
}

video.addEventListener("playing", () => {
  played = true;
  state("playing");
  unmute.hidden = !video.muted;
});
video.addEventListener("waiting", () => {
  if (played && engine) state("stalled", "Waiting for the stream…");
});
video.addEventListener("timeupdate", () => {
  if (main.dataset.state === "stalled" && !video.paused) state("playing");
});
let pausedAt = null;
video.addEventListener("pause", () => (pausedAt = Date.now()));
video.addEventListener("play", () => {
  if (pausedAt !== null && played) engine?.toLiveEdge();
  pausedAt = null;
});
video.addEventListener("volumechange", () => (unmute.hidden = !video.muted));
unmute.addEventListener("click", () => {
  video.muted = false;
  if (video.volume === 0) video.volume = 1;
  play();
});

const links = new Map(
  ["flv", "ws", "hls"].map((name) => [name, element("a", { href: `?${query && `${query}&`}via=${name}` }, engines[name].label)]),
);
document.getElementById("ways").append(...links.values());

function showWay(current) {
  main.dataset.via = current;
  for (const [name, link] of links) {
    if (name === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

document.getElementById("elsewhere").append(
  ...[
    ["OBS (media source)", where.rtmp ?? where.flv],
    where.rtmp && ["ffplay, RTMP", `ffplay -fflags nobuffer "${where.rtmp}"`],
    ["ffplay, HTTP-FLV", `ffplay "${where.flv}"`],
    ["VLC, HLS", `vlc "${where.hls}"`],
    ["WebSocket-FLV", where.ws],
  ]
    .filter(Boolean)
    .map(([label, text]) => copyLine(label, text)),
);
run();
