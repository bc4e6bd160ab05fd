// The gateway's API for this page, or the data of an exported file. A key is kept for this tab only.

import { h } from "./dom.js";

const embedded = document.getElementById("embedded");
export const exported = embedded ? JSON.parse(embedded.textContent) : null;
const base = "/inspect/api";

// `dragoman run --inspect` prints an address that ends in #key=…; the key does not stay in the address bar.
const given = /^#key=(.+)$/.exec(location.hash);
if (given) {
  sessionStorage.setItem("dragoman-key", decodeURIComponent(given[1]));
  history.replaceState(null, "", `${location.pathname}#/exchanges`);
}

const key = () => sessionStorage.getItem("dragoman-key") || "";
const headers = () => (key() ? { "x-api-key": key() } : {});

const send = (path, body) => fetch(base + path, { headers: headers(), ...(body === undefined ? {} : { method: "POST", body }) });

// The first rows are on their way while the rest of the page loads. An error is for the one who waits for them.
const NEWEST = "/exchanges?before=";
let begun = exported ? null : send(NEWEST);
begun?.catch(() => {});

export async function get(path, body) {
  if (exported) return exported[path];
  const started = path === NEWEST && begun;
  if (started) begun = null;
  const reply = await (started || send(path, body));
  if (reply.status === 401) {
    await askKey();
    return get(path, body);
  }
  if (!reply.ok) {
    const problem = (await reply.json().catch(() => ({}))).error;
    throw new Error(problem?.message || problem || `The gateway answered with status ${reply.status}.`);
  }
  return reply.json();
}

// A link cannot carry the key, so the file is fetched and then handed to the browser.
export async function download(path, name) {
  const reply = await fetch(base + path, { headers: headers() });
  if (!reply.ok) throw new Error(`The gateway answered with status ${reply.status}.`);
  const url = URL.createObjectURL(await reply.blob());
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Summaries as they change; reconnects by itself.
export async function live(listener, onState) {
  if (exported) return;
  for (;;) {
    try {
      const reply = await fetch(`${base}/live`, { headers: headers() });
      if (!reply.ok) throw new Error(String(reply.status));
      onState(true);
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        const lines = buffer.split("\n");
        buffer = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) listener(JSON.parse(line.slice(6)));
      }
    } catch {
      // the gateway stopped or restarts
    }
    onState(false);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

// Sends a request to the gateway as the recorded client did, with another body and another model.
export async function replay(head, text, model) {
  const body = JSON.parse(text);
  let url = head.request.url;
  if ("model" in body || !/\/models\//.test(url)) body.model = model;
  else url = url.replace(/(\/models\/)[^:]+(:)/, (_, before, after) => before + encodeURIComponent(model) + after);
  const versions = ["anthropic-version", "anthropic-beta"].filter((name) => head.request.headers[name]);
  return (await ask(url, body, Object.fromEntries(versions.map((name) => [name, head.request.headers[name]])))).id;
}

// Asks the gateway as a client does.
export async function ask(url, body, more) {
  const reply = await fetch(url, { method: "POST", headers: { "content-type": "application/json", ...headers(), ...more }, body: JSON.stringify(body) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`status ${reply.status}: ${text.slice(0, 400)}`);
  return { id: reply.headers.get("x-request-id"), answer: text.startsWith("{") ? JSON.parse(text) : text };
}

function askKey() {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", id: "key", autocomplete: "off", required: true });
    const dialog = h("dialog.key",
      h("form", { method: "dialog" }, h("label", { for: "key" }, "Admin key "), input, h("button.btn.primary", "Open")),
    );
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("dragoman-key", input.value);
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
