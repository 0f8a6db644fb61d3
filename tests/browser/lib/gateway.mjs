// The gateway under test and its publishers: real processes, killed when the test is over.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const repository = fileURLToPath(new URL("../../../", import.meta.url));
const clip = `${repository}gateway/demo/clip.flv`;
const START_LIMIT_MS = 20_000;

function binary() {
  const target = process.env.CARGO_TARGET_DIR ?? `${repository}target`;
  const path = process.env.SPILLWAY_BIN ?? `${target}/release/spillway`;
  if (!existsSync(path)) throw new Error(`no ${path}: cargo build --release -p spillway, or set SPILLWAY_BIN`);
  return path;
}

const plain = (text) => text.replace(/\x1b\[[0-9;]*m/g, "");

/** Starts a gateway on free loopback ports; `sets` are `--set` keys and values. */
export async function startGateway(t, sets = {}) {
  const listeners = { "rtmp.listen": "127.0.0.1:0", "http.listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0" };
  const args = Object.entries({ ...listeners, ...sets }).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
  const child = spawn(binary(), args, { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let log = "";
  const addresses = await new Promise((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`spillway: no ready line:\n${log}`)), START_LIMIT_MS);
    const read = (piece) => {
      log += plain(String(piece));
      const found = /rtmp=(\S+) http=(\S+) admin=(\S+)/.exec(log);
      if (found) {
        clearTimeout(timer);
        done(found);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => failed(new Error(`spillway ended with ${code}:\n${log}`)));
  });
  const [, rtmp, http, admin] = addresses;
  return { rtmp, http, admin, process: child, log: () => log, url: (path = "") => `http://${http}/${path}` };
}

/** Publishes the demo clip in a loop and in real time. */
export function publish(t, gateway, key) {
  const args = ["-hide_banner", "-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i", clip, "-c", "copy"];
  const child = spawn("ffmpeg", [...args, "-f", "flv", `rtmp://${gateway.rtmp}/${key}`], { stdio: "ignore" });
  const gone = new Promise((done) => child.on("exit", done));
  const kill = async () => {
    child.kill("SIGKILL");
    await gone;
  };
  t.after(kill);
  return { kill };
}

/** Waits until the gateway answers for the stream. */
export async function live(gateway, key) {
  await until(`${key} to be live`, 20_000, async () => {
    const answer = await fetch(gateway.url(`${key}.flv`), { method: "HEAD" });
    return answer.ok;
  });
}

/** Waits until the stream's HLS lists enough for any player to start at the live edge; needs `hls.mode=always`. */
export async function established(gateway, key) {
  await live(gateway, key);
  await until(`${key} to list 4 segments`, 30_000, async () => {
    const answer = await fetch(gateway.url(`${key}/media.m3u8`));
    return answer.ok && (await answer.text()).match(/\.ts$/gm)?.length >= 4;
  });
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Asks `probe` until it gives something true; fails with the reason and what `probe` gave last. */
export async function until(what, limitMs, probe, shown = () => "") {
  const started = Date.now();
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() - started > limitMs) throw new Error(`waited ${limitMs} ms in vain for: ${what} ${await shown()}`);
    await sleep(100);
  }
}
