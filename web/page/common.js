// What both pages need: addresses, elements, copy lines.

export const root = new URL(document.body.dataset.root, location.href);
const { rtmpPort, rtmpsPort } = document.body.dataset;
const rtmps = location.protocol === "https:" && rtmpsPort;

/** A stream's name as a path, each segment escaped. */
export const path = (stream) => stream.split("/").filter(Boolean).map(encodeURIComponent).join("/");

/** What the page was opened with for the server, as it stands: a key, a link's signature or a token. */
export const query = location.search
  .slice(1)
  .split("&")
  .filter((pair) => pair && !/^via(=|$)/.test(pair))
  .join("&");

/** The addresses of a stream. They carry what the page was opened with. */
export function urls(stream) {
  const at = (suffix) => {
    const url = new URL(path(stream) + suffix, root);
    url.search = query;
    return url;
  };
  const ws = at(".flv");
  ws.protocol = ws.protocol === "https:" ? "wss:" : "ws:";
  return {
    page: at("").href,
    flv: at(".flv").href,
    ws: ws.href,
    hls: at("/index.m3u8").href,
    rtmp: rtmps || rtmpPort ? `${rtmpBase()}/${path(stream)}${query && `?${query}`}` : null,
  };
}

/** The RTMP server's address without an application, or null when the gateway names no port. */
export function rtmpBase() {
  if (rtmps) return `rtmps://${location.hostname}${rtmpsPort === "443" ? "" : `:${rtmpsPort}`}`;
  if (!rtmpPort) return null;
  return `rtmp://${location.hostname}${rtmpPort === "1935" ? "" : `:${rtmpPort}`}`;
}

/** An element: attributes as properties or, with a dash or for roles, as attributes. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A line with a label, a text to use elsewhere and a button that copies it. */
export function copyLine(label, text) {
  const code = element("code", {}, text);
  const button = element("button", { type: "button", "aria-label": `Copy the line for ${label}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text, code)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return element("div", { className: "line" }, element("span", { className: "label quiet" }, label), code, button);
}

// The clipboard API exists only on https and localhost; elsewhere the text is selected for the old way.
async function copy(text, code) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
}

/** Seconds as "5 s", "12 min" or "3 h 5 min". */
export function span(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
