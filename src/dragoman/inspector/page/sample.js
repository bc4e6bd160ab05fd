// A tool call to look at before an agent is connected: two turns with the scripted model, which costs nothing.

import { ask } from "./api.js";
import { message, toast } from "./dom.js";
import { go } from "./state.js";

const TOOL = { name: "get_weather", description: "The weather of a city.", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } };
const RESULT = "21 °C, sunny, wind 3 m/s";

export async function sample() {
  const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
  const body = { model: "demo:any", max_tokens: 1000, top_k: 40, tools: [TOOL], messages };
  const turn = () => ask("/v1/messages", body, { "anthropic-version": "2023-06-01" });
  try {
    const { answer } = await turn();
    const calls = answer.content.filter((it) => it.type === "tool_use");
    messages.push({ role: "assistant", content: answer.content }, { role: "user", content: calls.map((it) => ({ type: "tool_result", tool_use_id: it.id, content: RESULT })) });
    const { id } = await turn();
    go({ page: "exchanges", id });
  } catch (error) {
    toast(message(error));
  }
}
