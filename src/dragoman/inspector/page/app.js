// The page: a list that stays alive, and views by hash: #/ · #/e/ID · #/overview · #/setup.

import { exported, get, live } from "inspector/api";
import { h, replace } from "inspector/dom";
import "inspector/exchange";
import "inspector/list";
import "inspector/overview";

class InspectorApp extends HTMLElement {
  async connectedCallback() {
    this.list = h("exchange-list");
    this.view = h("div", { class: "view" });
    this.main = h("main", { id: "main" }, this.list, this.view);
    this.lamp = h("span", { class: "lamp", role: "status" }, "connecting");
    const bar = h("nav", { "aria-label": "views" }, h("b", {}, "dragoman"), h("a", { href: "#/" }, "Exchanges"), h("a", { href: "#/overview" }, "Overview"), h("a", { href: "#/setup" }, "Setup"), this.lamp);
    replace(this, exported ? "" : bar, this.main);
    addEventListener("hashchange", () => this.navigate());
    addEventListener("keydown", (event) => this.key(event));
    if (exported) {
      this.list.hidden = true;
      return this.show(h("exchange-view"), (view) => view.open(exported.id));
    }
    const { rows } = await get("/exchanges");
    this.list.load(rows);
    live(
      (row) => this.list.put(row),
      (on) => ((this.lamp.textContent = on ? "live" : "reconnecting"), this.lamp.classList.toggle("on", on)),
    );
    this.navigate();
  }

  async navigate() {
    const [, page, id, tab] = location.hash.split("/");
    this.list.hidden = Boolean(page);
    for (const link of this.querySelectorAll("nav a")) link.toggleAttribute("aria-current", link.getAttribute("href") === `#/${page === "e" ? "" : page || ""}`);
    if (page === "e") {
      this.list.selected = id;
      await this.show(h("exchange-view"), (view) => view.open(id, tab || "Losses"));
    } else if (page === "overview") await this.show(h("overview-view"), (view) => view.open([...this.list.rows.values()]));
    else if (page === "setup") await this.show(h("setup-view"), (view) => view.open());
    else {
      replace(this.view);
      this.list.draw();
    }
  }

  async show(view, open) {
    replace(this.view, view);
    try {
      await open(view);
    } catch (error) {
      replace(this.view, h("p", { class: "error", role: "alert" }, String(error.message || error)));
    }
  }

  key(event) {
    if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const view = this.view.firstElementChild;
    if (event.key === "/") {
      location.hash = "#/";
      this.list.input.focus();
      event.preventDefault();
    } else if (event.key === "Escape") location.hash = "#/";
    else if (view?.select && /^[1-7]$/.test(event.key)) view.tabs.children[Number(event.key) - 1].click();
    else if ("jk".includes(event.key) && !this.list.hidden) this.list.body.focus(), this.list.key(event);
  }
}

customElements.define("inspector-app", InspectorApp);
