// What is shown, kept in the address: #/exchanges/ID?tab=Wires&q=provider:groq. A link shows the same again.

export const TABS = ["Conversation", "Wires", "Losses", "Stream", "Window", "Route", "Actions"];
export const state = { page: "exchanges", id: "", tab: TABS[0], q: "" };

export function readAddress() {
  const [path, query] = location.hash.slice(2).split("?");
  const [page, id] = path.split("/");
  const given = new URLSearchParams(query || "");
  state.page = ["overview", "setup"].includes(page) ? page : "exchanges";
  state.id = state.page === "exchanges" ? decodeURIComponent(id || "") : "";
  state.tab = TABS.includes(given.get("tab")) ? given.get("tab") : TABS[0];
  state.q = given.get("q") || "";
}

export function address(change = {}) {
  const next = { ...state, ...change };
  const query = new URLSearchParams();
  if (next.tab !== TABS[0] && next.id) query.set("tab", next.tab);
  if (next.q) query.set("q", next.q);
  const text = query.toString().replaceAll("%3A", ":");
  return `#/${next.page}${next.id && next.page === "exchanges" ? `/${encodeURIComponent(next.id)}` : ""}${text ? `?${text}` : ""}`;
}

// Another exchange is a step that Back undoes; tab and filter are not.
export function go(change) {
  const target = address(change);
  const step = "id" in change && change.id !== state.id;
  Object.assign(state, change);
  history[step ? "pushState" : "replaceState"](null, "", target);
  dispatchEvent(new Event("navigate"));
}

export const remembered = (name) => {
  try {
    return localStorage.getItem(`dragoman-${name}`);
  } catch {
    return null;
  }
};
export const remember = (name, value) => {
  try {
    localStorage.setItem(`dragoman-${name}`, value);
  } catch {
    // a file opened offline has no storage
  }
};
