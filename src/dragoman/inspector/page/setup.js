// Setup: how the agents of this machine reach this gateway, and what its names lead to.

import { get } from "./api.js";
import { sample } from "./sample.js";
import { copy, fold, h, iconButton, plural, replace, table } from "./dom.js";

export class SetupView extends HTMLElement {
  async open() {
    const data = await get("/setup");
    const found = data.agents.filter((it) => it.found);
    const usable = data.providers.filter((it) => it.usable);
    const rest = data.providers.filter((it) => !it.usable);
    const agent = (it) => h("li", h("p", h("b", it.name), " ", h("span", { class: `pill ${it.found ? "ok" : ""}` }, it.found ? "installed" : "not installed"), it.served ? "" : h("span.pill.warn", `asks for ${it.model}, which no rule serves`)), it.found ? "" : command(it.install), command(it.command), it.note && it.found ? h("p.muted", `Also: ${it.note}.`) : "");
    replace(
      this,
      h("div.wrap",
        h("div.ohead", h("h1", "Setup"), h("span.muted", `this gateway is ${data.url}${data.keys ? ", with keys" : ""}`)),
        h("div.ogrid",
          h("section.ocard.w8", h("h2", "Connect an agent", h("small", found.length ? `${plural(found.length, "agent")} found on this machine` : "none was found on this machine")), h("ul.agents", [...found, ...data.agents.filter((it) => !it.found)].map(agent)), h("h2", "Any SDK"), command(`export ${data.sdks}`), h("h2", "No agent at hand?"), h("p", h("button.btn", { onclick: sample }, "Send a sample tool call"), " ", h("span.muted", "The scripted model answers. Nothing leaves this machine."))),
          h("section.ocard.w4", h("h2", "Names of models"), table(["Asked for", "Goes to"], data.models.map((it) => [h("code", it.name), it.targets.join(", then ")]), "No rule. Ask for provider:model."), h("h2", "Providers", h("small", `${usable.length} usable`)), table(["Provider", "Protocol"], usable.map((it) => [h("b", { title: it.why }, it.name), it.protocol])), rest.length ? fold("turn", [h("b", `${rest.length} without a key`)], () => table(["Provider", "Why"], rest.map((it) => [it.name, it.why]))) : ""),
        ),
      ),
    );
  }
}

const command = (text) => h("div.cmd", h("pre.code", { tabindex: "0" }, text), iconButton("copy the command", "copy", (event) => copy(text, event.currentTarget)));

customElements.define("setup-view", SetupView);
