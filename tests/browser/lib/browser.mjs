// Chromium, its pages, and what a video element in them does.

import { readFileSync, readdirSync } from "node:fs";
import { chromium } from "playwright-core";

import { until } from "./gateway.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--autoplay-policy=no-user-gesture-required",
];

/** A browser of its own, with a new profile. */
export async function startBrowser(t) {
  const server = await chromium.launchServer({ executablePath, args, headless: true });
  const browser = await chromium.connect(server.wsEndpoint());
  const root = server.process().pid;
  t.after(async () => {
    signalTree(root, "SIGCONT");
    await server.kill();
  });
  return { browser, suspend: () => signalTree(root, "SIGSTOP"), resume: () => signalTree(root, "SIGCONT") };
}

function signalTree(root, signal) {
  const children = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // The process ended in between.
    }
  }
  const pending = [root];
  while (pending.length > 0) {
    const pid = pending.pop();
    pending.push(...(children.get(pid) ?? []));
    try {
      process.kill(pid, signal);
    } catch {
      // The same.
    }
  }
}

/** Opens a page and keeps its complaints: console errors, exceptions, answers of 400 and above. */
export async function openPage(browser, url) {
  const page = await browser.newPage();
  const complaints = [];
  const answers = [];
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("response", (response) => answers.push({ url: response.url(), status: response.status() }));
  await page.goto(url);
  return { page, complaints, answers };
}

/** What the page's video does now. */
export function look(page) {
  return page.evaluate(() => {
    const video = document.querySelector("video");
    const quality = video.getVideoPlaybackQuality();
    return {
      time: video.currentTime,
      frames: quality.totalVideoFrames,
      ready: video.readyState,
      paused: video.paused,
      error: video.error?.message ?? null,
      buffered: video.buffered.length ? video.buffered.end(video.buffered.length - 1) : 0,
      latency: window.hls?.latency ?? null,
      fatal: window.fatal ?? [],
      events: (window.events ?? []).slice(-12),
      state: document.getElementById("main")?.dataset.state ?? null,
      via: document.getElementById("main")?.dataset.via ?? null,
    };
  });
}

/** Waits until the video has played on by so many seconds and pictures. */
export async function playsOn(page, seconds, limitMs, what = "playback") {
  const first = await look(page);
  return until(
    `${what}: ${seconds} s more`,
    limitMs,
    async () => {
      const now = await look(page);
      return now.time >= first.time + seconds && now.frames >= first.frames + seconds * 10 ? now : null;
    },
    async () => `from ${JSON.stringify(first)} to ${JSON.stringify(await look(page))}`,
  );
}

/** Waits for the first picture. */
export function starts(page, limitMs, what = "the first picture") {
  return until(
    what,
    limitMs,
    async () => {
      const now = await look(page);
      return now.frames > 0 && now.time > 0 ? now : null;
    },
    async () => JSON.stringify(await look(page)),
  );
}
