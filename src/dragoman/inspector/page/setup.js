// Setup: how the agents of this machine reach this gateway, and what its names lead to.

import { get } from "inspector/api";
import { sample } from "inspector/sample";
import { copy, fold, h, icon, plural, replace, table } from "inspector/dom";

export class SetupView extends HTMLElement {
  async open() {
    const data = await get("/setup");
    const found = data.agents.filter((it) => it.found);
    const usable = data.providers.filter((it) => it.usable);
    const rest = data.providers.filter((it) => !it.usable);
    const agent = (it) => h("li", {}, h("p", {}, h("b", {}, it.name), " ", h("span", { class: `pill ${it.found ? "ok" : ""}` }, it.found ? "installed" : "not installed"), it.served ? "" : h("span", { class: "pill warn" }, `asks for ${it.model}, which no rule serves`)), it.found ? "" : command(it.install), command(it.command), it.note && it.found ? h("p", { class: "muted" }, `Also: ${it.note}.`) : "");
    replace(
      this,
      h(
        "div",
        { class: "wrap" },
        h("div", { class: "ohead" }, h("h1", {}, "Setup"), h("span", { class: "muted" }, `this gateway is ${data.url}${data.keys ? ", with keys" : ""}`)),
        h(
          "div",
          { class: "ogrid" },
          h("section", { class: "ocard w8" }, h("h2", {}, "Connect an agent", h("small", {}, found.length ? `${plural(found.length, "agent")} found on this machine` : "none was found on this machine")), h("ul", { class: "agents" }, [...found, ...data.agents.filter((it) => !it.found)].map(agent)), h("h2", {}, "Any SDK"), command(`export ${data.sdks}`), h("h2", {}, "No agent at hand?"), h("p", {}, h("button", { class: "btn", onclick: sample }, "Send a sample tool call"), " ", h("span", { class: "muted" }, "The scripted model answers. Nothing leaves this machine."))),
          h("section", { class: "ocard w4" }, h("h2", {}, "Names of models"), table(["Asked for", "Goes to"], data.models.map((it) => [h("code", {}, it.name), it.targets.join(", then ")]), "No rule. Ask for provider:model."), h("h2", {}, "Providers", h("small", {}, `${usable.length} usable`)), table(["Provider", "Protocol"], usable.map((it) => [h("b", { title: it.why }, it.name), it.protocol])), rest.length ? fold({ class: "turn" }, [h("b", {}, `${rest.length} without a key`)], () => table(["Provider", "Why"], rest.map((it) => [it.name, it.why]))) : ""),
        ),
      ),
    );
  }
}

const command = (text) => h("div", { class: "cmd" }, h("pre", { class: "code", tabindex: "0" }, text), h("button", { class: "icon-btn", title: "copy", "aria-label": "copy the command", onclick: (event) => copy(text, event.currentTarget) }, icon("copy")));

customElements.define("setup-view", SetupView);
