// A web site of its own origin with the players as their projects' read-me files show them: proves CORS as well.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const here = new URL("../", import.meta.url);
const files = {
  "/hls.html": ["pages/hls.html", "text/html"],
  "/mpegts.html": ["pages/mpegts.html", "text/html"],
  "/native.html": ["pages/native.html", "text/html"],
  "/hls-1.7.js": ["node_modules/hls.js/dist/hls.min.js", "text/javascript"],
  "/hls-1.6.js": ["node_modules/hls.js-1.6/dist/hls.min.js", "text/javascript"],
  "/mpegts.js": ["node_modules/mpegts.js/dist/mpegts.js", "text/javascript"],
};

export async function startSite(t) {
  const server = createServer(async (request, response) => {
    const file = files[new URL(request.url, "http://site").pathname];
    if (!file) {
      // An icon that is asked for unasked must not look like an error of the page.
      response.writeHead(204).end();
      return;
    }
    response.writeHead(200, { "content-type": file[1] }).end(await readFile(new URL(file[0], here)));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.closeAllConnections() ?? server.close());
  const { port } = server.address();
  return (page, parameters) => `http://127.0.0.1:${port}/${page}?${new URLSearchParams(parameters)}`;
}
