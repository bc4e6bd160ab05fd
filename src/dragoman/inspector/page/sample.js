// A tool call to look at before an agent is connected: two turns with the scripted model, which costs nothing.

import { ask } from "./api.js";
import { message, toast } from "./dom.js";
import { go } from "./state.js";

const TOOL = { type: "function", name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } };
const RESULT = "21 °C, sunny, wind 3 m/s";

// In Responses and streamed, while the model speaks Messages: a translation, with a setting that is lost on the way.
export async function sample() {
  const input = [{ role: "user", content: "What is the weather in Oslo?" }];
  const body = { model: "demo:any", stream: true, max_output_tokens: 1000, text: { verbosity: "low" }, tools: [TOOL], input };
  const turn = () => ask("/v1/responses", body);
  try {
    const { answer } = await turn();
    const { output } = JSON.parse(answer.slice(answer.lastIndexOf("data: {") + 6)).response;
    for (const { call_id } of output.filter((it) => it.call_id)) output.push({ type: "function_call_output", call_id, output: RESULT });
    input.push(...output);
    const { id } = await turn();
    go({ page: "exchanges", id });
  } catch (error) {
    toast(message(error));
  }
}
