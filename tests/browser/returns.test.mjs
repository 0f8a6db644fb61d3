// A publisher that is killed and comes back: the pages play on by themselves.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openPage, playsOn, startBrowser, starts } from "./lib/browser.mjs";
import { live, publish, sleep, startGateway } from "./lib/gateway.mjs";
import { startSite } from "./lib/pages.mjs";

const KEY = "live/return";
const AWAY_MS = 4000;
const options = { timeout: 120_000 };

async function killAndReturn(t, gateway, publisher) {
  await publisher.kill();
  await sleep(AWAY_MS);
  return publish(t, gateway, KEY);
}

for (const version of ["1.7", "1.6"]) {
  test(`hls.js ${version} plays on`, options, async (t) => {
    const gateway = await startGateway(t);
    const site = await startSite(t);
    const publisher = publish(t, gateway, KEY);
    await live(gateway, KEY);
    const { browser } = await startBrowser(t);
    const src = gateway.url(`${KEY}/index.m3u8`);
    const { page, answers } = await openPage(browser, site("hls.html", { version, src }));
    await starts(page, 30_000);
    await playsOn(page, 3, 20_000);
    await killAndReturn(t, gateway, publisher);
    const now = await playsOn(page, 15, 60_000, "after the return");
    assert.deepEqual(now.fatal, []);
    assert.deepEqual(answers.filter(({ status }) => status >= 400), []);
  });
}

for (const via of ["hls", "flv", "ws"]) {
  test(`the players' page plays on by ${via}`, options, async (t) => {
    const gateway = await startGateway(t);
    const publisher = publish(t, gateway, KEY);
    await live(gateway, KEY);
    const { browser } = await startBrowser(t);
    const { page, complaints, answers } = await openPage(browser, gateway.url(`${KEY}?via=${via}`));
    await starts(page, 30_000);
    await playsOn(page, 3, 20_000);
    const media = () => answers.filter(({ url }) => /\.flv$|index\.m3u8$/.test(url)).length;
    const before = media();
    await killAndReturn(t, gateway, publisher);
    const now = await playsOn(page, 12, 60_000, "after the return");
    assert.equal(now.state, "playing");
    assert.equal(media(), before, "the page had to open the stream again");
    assert.deepEqual(complaints, []);
  });
}
