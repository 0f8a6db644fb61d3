// Viewers that were suspended, or whose link is slower than the stream, find back to the live edge by themselves.

import assert from "node:assert/strict";
import { test } from "node:test";

import { look, openPage, playsOn, startBrowser, starts } from "./lib/browser.mjs";
import { live, publish, sleep, startGateway, until } from "./lib/gateway.mjs";
import { startSite } from "./lib/pages.mjs";

const KEY = "live/resync";
const options = { timeout: 180_000 };
// hls.js plays three segments behind the edge; a little more is still the live edge.
const liveEdge = (segmentSeconds) => segmentSeconds * 3 + 4;

/** hls.js playing a stream with segments of one second and the given window. */
async function watching(t, version, window) {
  const gateway = await startGateway(t, { "hls.segment_duration": "1s", "hls.window": window, "hls.mode": "always" });
  const site = await startSite(t);
  publish(t, gateway, KEY);
  await live(gateway, KEY);
  const { browser, suspend, resume } = await startBrowser(t);
  const src = gateway.url(`${KEY}/index.m3u8`);
  const { page, answers } = await openPage(browser, site("hls.html", { version, src }));
  await starts(page, 30_000);
  await playsOn(page, 4, 30_000);
  return { gateway, page, answers, suspend, resume };
}

async function atLiveEdge(page, seconds, limitMs) {
  await until(
    "the live edge",
    limitMs,
    async () => {
      const now = await look(page);
      return now.latency !== null && now.latency > 0 && now.latency < liveEdge(seconds) && now.ready >= 3;
    },
    async () => JSON.stringify(await look(page)),
  );
  return playsOn(page, 5, 20_000, "at the live edge");
}

/**
 * A network that stands still: the next request of a segment is held back, and then the playlist as well, so that the
 * player cannot know better; after `ms` all go on. Gives the segment's address.
 */
async function standStill(page, ms) {
  let release, segmentAsked;
  const released = new Promise((done) => (release = done));
  const asked = new Promise((done) => (segmentAsked = done));
  const hold = async (route) => {
    await released;
    // A request that the player has given up in the meantime cannot go on, and need not.
    await route.continue().catch(() => {});
  };
  await page.route(`**/${KEY}/*.ts`, (route) => {
    segmentAsked(route.request().url());
    return hold(route);
  });
  const segment = await asked;
  await page.route(`**/${KEY}/*.m3u8`, hold);
  await sleep(ms);
  release();
  return segment;
}

for (const version of ["1.7", "1.6"]) {
  test(`hls.js ${version} suspended past the window and the retained time is at the live edge again`, options, async (t) => {
    const { page, suspend, resume } = await watching(t, version, 6);
    const before = await look(page);
    suspend();
    // Window and retained time are 12 s together.
    await sleep(18_000);
    resume();
    const now = await atLiveEdge(page, 1, 30_000);
    assert.deepEqual(now.fatal, []);
    assert.ok(now.time > before.time + 12, `jumped from ${before.time} to ${now.time}`);
  });
}

// 1.5 and older take any 404 of a segment for fatal; these do not (hls.md 1.1).
for (const version of ["1.7", "1.6"]) {
  test(`hls.js ${version} meets a 404 of an expired segment and is at the live edge again`, options, async (t) => {
    const { page, answers } = await watching(t, version, 3);
    answers.length = 0;
    // Longer than window and retained time (6 s), shorter than hls.js waits for a first byte (10 s).
    const segment = await standStill(page, 8500);
    const answer = await until("its answer", 10_000, () => answers.find(({ url }) => url === segment));
    assert.equal(answer.status, 404, `${segment} is past the retained time`);
    const now = await atLiveEdge(page, 1, 30_000);
    assert.deepEqual(now.fatal, []);
  });
}

test("hls.js held up for less is served the retained segment and plays on", options, async (t) => {
  const { page, answers } = await watching(t, "1.7", 6);
  answers.length = 0;
  // Longer than the window (6 s), shorter than window and retained time (12 s).
  const segment = await standStill(page, 8500);
  const answer = await until("its answer", 10_000, () => answers.find(({ url }) => url === segment));
  assert.equal(answer.status, 200, `${segment} is past the window and not past the retained time`);
  const now = await playsOn(page, 8, 40_000, "after being held up");
  assert.deepEqual(now.fatal, []);
  assert.deepEqual(answers.filter(({ status }) => status >= 400), []);
});

test("hls.js on a link slower than the stream hops along the live edge without an error", options, async (t) => {
  const { page, answers } = await watching(t, "1.7", 6);
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  const limit = (downloadThroughput) =>
    network.send("Network.emulateNetworkConditions", {
      offline: false,
      latency: 20,
      downloadThroughput,
      uploadThroughput: -1,
    });
  const before = await look(page);
  answers.length = 0;
  // The clip has about 22,000 bytes a second.
  await limit(9000);
  await sleep(30_000);
  const slow = await look(page);
  assert.deepEqual(slow.fatal, []);
  await limit(-1);
  const now = await atLiveEdge(page, 1, 30_000);
  assert.deepEqual(now.fatal, []);
  assert.ok(now.time > before.time + 20, `hopped from ${before.time} to ${now.time} only`);
  const refused = answers.filter(({ status }) => status >= 400 && status !== 404);
  assert.deepEqual(refused, []);
});

for (const via of ["flv", "ws"]) {
  test(`the players' page by ${via} is at the live edge after a suspension`, options, async (t) => {
    const gateway = await startGateway(t);
    publish(t, gateway, KEY);
    await live(gateway, KEY);
    const { browser, suspend, resume } = await startBrowser(t);
    const { page } = await openPage(browser, gateway.url(`${KEY}?via=${via}`));
    await starts(page, 30_000);
    await playsOn(page, 3, 20_000);
    suspend();
    await sleep(12_000);
    resume();
    await playsOn(page, 5, 40_000, "after the suspension");
    // It jumps when it is more than 8 s behind, and plays a tenth faster until then.
    const behind = async () => {
      const seen = await look(page);
      return seen.buffered - seen.time < 5 && seen.state === "playing" ? seen : null;
    };
    const now = await until("less than 5 s behind", 45_000, behind, async () => JSON.stringify(await look(page)));
    assert.equal(now.error, null);
  });
}
