// The gateway's own pages and plain pages of others play a live stream.

import assert from "node:assert/strict";
import { test } from "node:test";

import { look, openPage, playsOn, startBrowser, starts } from "./lib/browser.mjs";
import { established, live, publish, startGateway, until } from "./lib/gateway.mjs";
import { startSite } from "./lib/pages.mjs";

const KEY = "live/page";
const options = { timeout: 120_000 };

test("the list names the stream and leads to a page that plays it", options, async (t) => {
  const gateway = await startGateway(t);
  const { browser } = await startBrowser(t);
  const { page, complaints } = await openPage(browser, gateway.url());
  await page.getByText("Nobody is streaming yet").waitFor({ timeout: 10_000 });
  publish(t, gateway, KEY);
  const link = page.getByRole("link", { name: KEY });
  await link.waitFor({ timeout: 20_000 });
  assert.match(await link.textContent(), /LIVE.*640×360/s);
  await link.click();
  await page.waitForURL(`**/${KEY}`);
  await starts(page, 20_000);
  await playsOn(page, 3, 20_000);
  assert.deepEqual(complaints, []);
});

for (const via of ["hls", "flv", "ws", ""]) {
  test(`the players' page plays by ${via || "what it likes best"}`, options, async (t) => {
    const gateway = await startGateway(t);
    publish(t, gateway, KEY);
    await live(gateway, KEY);
    const { browser } = await startBrowser(t);
    const { page, complaints } = await openPage(browser, gateway.url(`${KEY}${via && `?via=${via}`}`));
    await starts(page, 30_000);
    const now = await playsOn(page, 5, 30_000);
    assert.equal(now.state, "playing");
    if (via) assert.equal(now.via, via);
    assert.equal(now.error, null);
    assert.deepEqual(complaints, []);
  });
}

for (const via of ["hls", "flv", "ws"]) {
  test(`the players' page passes its token on and plays by ${via}`, options, async (t) => {
    const gateway = await startGateway(t, { "auth.play": "keys", "auth.play_keys": "a+b/c=d&e" });
    publish(t, gateway, KEY);
    const { browser } = await startBrowser(t);
    const page = (await openPage(browser, gateway.url(`${KEY}?key=a%2Bb/c=d%26e&via=${via}`))).page;
    await starts(page, 30_000);
    const now = await playsOn(page, 3, 30_000);
    assert.equal(now.via, via);
    const links = await page.locator("#ways a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
    assert.ok(links.every((link) => link.startsWith("?key=a%2Bb/c=d%26e&via=")), links.join(" "));
  });
}

test("the players' page says what is missing where it may not play, and asks once", options, async (t) => {
  const gateway = await startGateway(t, { "auth.play": "keys", "auth.play_keys": "the-key" });
  const { browser } = await startBrowser(t);
  const { page, answers } = await openPage(browser, gateway.url(`${KEY}?key=wrong`));
  await page.getByText("needs a valid key, link or token").waitFor({ timeout: 20_000 });
  await page.waitForTimeout(3000);
  assert.equal(answers.filter(({ status }) => status === 401).length, 1);
});

test("the players' page waits for the publisher and starts by itself", options, async (t) => {
  const gateway = await startGateway(t);
  const { browser } = await startBrowser(t);
  const { page } = await openPage(browser, gateway.url(KEY));
  await until("the page to say that it waits", 30_000, async () => (await look(page)).state === "waiting");
  publish(t, gateway, KEY);
  await starts(page, 30_000);
  await playsOn(page, 3, 20_000);
});

for (const version of ["1.7", "1.6"]) {
  test(`hls.js ${version} plays on a page of another origin`, options, async (t) => {
    const gateway = await startGateway(t, { "hls.mode": "always" });
    const site = await startSite(t);
    publish(t, gateway, KEY);
    await established(gateway, KEY);
    const { browser } = await startBrowser(t);
    const src = gateway.url(`${KEY}/index.m3u8`);
    const { page, complaints, answers } = await openPage(browser, site("hls.html", { version, src }));
    await starts(page, 30_000);
    const now = await playsOn(page, 8, 30_000);
    assert.deepEqual(now.fatal, []);
    assert.deepEqual(now.events, [], "hls.js reported errors");
    assert.deepEqual(complaints, []);
    assert.deepEqual(answers.filter(({ status }) => status >= 400), []);
  });
}

test("hls.js plays a stream that has only just begun", options, async (t) => {
  const gateway = await startGateway(t);
  const site = await startSite(t);
  publish(t, gateway, KEY);
  await live(gateway, KEY);
  const { browser } = await startBrowser(t);
  const src = gateway.url(`${KEY}/index.m3u8`);
  const { page, answers } = await openPage(browser, site("hls.html", { version: "1.7", src }));
  await starts(page, 30_000);
  const now = await playsOn(page, 8, 30_000);
  assert.deepEqual(now.fatal, []);
  // There is less than a target latency to play yet, so it may run dry between segments.
  assert.deepEqual(now.events.filter((event) => !event.includes("bufferStalledError")), []);
  assert.deepEqual(answers.filter(({ status }) => status >= 400), []);
});

for (const scheme of ["http", "ws"]) {
  test(`mpegts.js plays by ${scheme} on a page of another origin`, options, async (t) => {
    const gateway = await startGateway(t);
    const site = await startSite(t);
    publish(t, gateway, KEY);
    await live(gateway, KEY);
    const { browser } = await startBrowser(t);
    const src = `${scheme}://${gateway.http}/${KEY}.flv`;
    const { page, complaints } = await openPage(browser, site("mpegts.html", { src }));
    await starts(page, 30_000);
    const now = await playsOn(page, 5, 30_000);
    assert.deepEqual(now.fatal, []);
    assert.deepEqual(complaints, []);
  });
}

// It does not wait: a playlist that ends before it has enough to start is an error to it (hls.md 1.1).
test("Chromium's own HLS plays", options, async (t) => {
  const gateway = await startGateway(t, { "hls.mode": "always" });
  const site = await startSite(t);
  publish(t, gateway, KEY);
  await established(gateway, KEY);
  const { browser } = await startBrowser(t);
  const { page } = await openPage(browser, site("native.html", { src: gateway.url(`${KEY}/index.m3u8`) }));
  await starts(page, 30_000);
  const now = await playsOn(page, 5, 30_000);
  assert.equal(now.error, null);
});
