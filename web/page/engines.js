// The ways to play a stream. Each engine's start() takes the video element, the address and a callback that is
// told once why playing is over: "ended", "network" (try again) or "unsupported" (try another way).

import { root } from "./common.js";

const scripts = new Map();

function load(file, name) {
  if (!scripts.has(file)) {
    scripts.set(
      file,
      new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = new URL(`assets/${file}`, root);
        script.onload = () => done(window[name]);
        script.onerror = () => {
          scripts.delete(file);
          script.remove();
          failed(new Error(`${file} could not be loaded`));
        };
        document.head.append(script);
      }),
    );
  }
  return scripts.get(file);
}

const hasMse = () => "MediaSource" in window || "ManagedMediaSource" in window;

export const bufferedEnd = (video) => (video.buffered.length ? video.buffered.end(video.buffered.length - 1) : 0);

const flvConfig = {
  // A stash gathers bytes for files; live tags are handed on as they come.
  enableStashBuffer: false,
  lazyLoad: false,
  deferLoadAfterSourceOpen: false,
  autoCleanupSourceBuffer: true,
  autoCleanupMaxBackwardDuration: 60,
  autoCleanupMinBackwardDuration: 30,
  // A little behind: play faster. Far behind (a tab that slept): jump.
  liveSync: true,
  liveSyncMaxLatency: 2.5,
  liveSyncTargetLatency: 1.2,
  liveSyncPlaybackRate: 1.1,
  liveBufferLatencyChasing: true,
  liveBufferLatencyMaxLatency: 8,
  liveBufferLatencyMinRemain: 1.5,
};

async function startFlv(video, url, over) {
  const mpegts = await load("mpegts.js", "mpegts");
  mpegts.LoggingControl.applyConfig({ enableVerbose: false, enableDebug: false });
  const player = mpegts.createPlayer({ type: "flv", isLive: true, url }, flvConfig);
  player.on(mpegts.Events.ERROR, (type, detail, info) => {
    const network = type === mpegts.ErrorTypes.NETWORK_ERROR;
    over(network ? "network" : "unsupported", info?.msg ?? detail);
  });
  player.on(mpegts.Events.LOADING_COMPLETE, () => over("ended"));
  player.attachMediaElement(video);
  player.load();
  return {
    stop: () => player.destroy(),
    delay: () => bufferedEnd(video) - video.currentTime,
    toLiveEdge: () => (video.currentTime = Math.max(video.currentTime, bufferedEnd(video) - 1)),
  };
}

const patient = (maxTimeToFirstByteMs) => ({
  default: {
    maxTimeToFirstByteMs,
    maxLoadTimeMs: 20000,
    timeoutRetry: { maxNumRetry: 6, retryDelayMs: 0, maxRetryDelayMs: 0 },
    errorRetry: { maxNumRetry: 8, retryDelayMs: 1000, maxRetryDelayMs: 8000 },
  },
});

const hlsConfig = {
  liveSyncDurationCount: 3,
  liveMaxLatencyDurationCount: 6,
  maxLiveSyncPlaybackRate: 1.2,
  backBufferLength: 30,
  // The first answer is held until there is something to play.
  manifestLoadPolicy: patient(20000),
  playlistLoadPolicy: patient(10000),
};

async function startHls(video, url, over) {
  const Hls = await load("hls.min.js", "Hls");
  const hls = new Hls(hlsConfig);
  let recoveries = 0;
  hls.on(Hls.Events.ERROR, (_, data) => {
    if (!data.fatal) return;
    if (data.details === Hls.ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR) over("unsupported", data.details);
    else if (data.type === Hls.ErrorTypes.MEDIA_ERROR && recoveries++ < 2) hls.recoverMediaError();
    else over(data.type === Hls.ErrorTypes.NETWORK_ERROR ? "network" : "unsupported", data.details);
  });
  hls.loadSource(url);
  hls.attachMedia(video);
  return {
    stop: () => hls.destroy(),
    delay: () => hls.latency,
    toLiveEdge: () => {
      if (hls.liveSyncPosition > video.currentTime) video.currentTime = hls.liveSyncPosition;
    },
  };
}

async function startNative(video, url, over) {
  const failed = () => over(video.error?.code === 4 ? "unsupported" : "network", video.error?.message);
  video.addEventListener("error", failed);
  video.src = url;
  const edge = () => (video.seekable.length ? video.seekable.end(video.seekable.length - 1) : 0);
  return {
    stop: () => {
      video.removeEventListener("error", failed);
      video.removeAttribute("src");
      video.load();
    },
    delay: () => edge() - video.currentTime,
    toLiveEdge: () => (video.currentTime = edge()),
  };
}

/** In the order of preference: the least delay first. */
export const engines = {
  flv: { label: "FLV", supported: hasMse, address: "flv", start: startFlv },
  ws: { label: "WebSocket", supported: hasMse, address: "ws", start: startFlv },
  hls: { label: "HLS", supported: hasMse, address: "hls", start: startHls },
  native: {
    label: "HLS",
    supported: (video) => !("MediaSource" in window) && video.canPlayType("application/vnd.apple.mpegurl") !== "",
    address: "hls",
    start: startNative,
  },
};

/** The engines to try for what the address asks for. */
export function candidates(via, video) {
  const wanted = via === "hls" ? ["native", "hls"] : via in engines ? [via] : ["native", "flv", "hls"];
  return wanted.filter((name) => engines[name].supported(video));
}
