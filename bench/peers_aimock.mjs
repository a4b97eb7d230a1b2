// Starts aimock on a free port of loopback: every wire format, one answer. Prints its address; ends with its input.
//
//     node bench/peers_aimock.mjs FOLDER-OF-NODE_MODULES KEY
//
// The answer depends on the request alone: a judge is told that nothing pairs, and everybody else gets one memory. Where
// the request offers tools it comes as a call of the first one, as from providers without structured output.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , folder, key] = process.argv;
const require = createRequire(`${folder}/`);
const { LLMock } = await import(pathToFileURL(require.resolve("@copilotkit/aimock")));

const MEMORY = {
  memory_id: "m1",
  type: "direct",
  label: "UNMAPPED",
  label_suggestion: null,
  value: "Lives in Lyon",
  reasoning: "The user says so.",
  evidence: { session_id: null, utterance_index: 0, text: "I live in Lyon" },
  confidence: 0.95,
  time_scope: "long_term",
  emotion: null,
  preference_attitude: null,
  updated_at: null,
};
const usage = { prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 };

function answer(request) {
  const judged = JSON.stringify(request.messages).includes('\\"kind\\": \\"match\\"');
  const content = JSON.stringify(judged ? { pairs: [] } : { memory_items: [MEMORY] });
  const tool = request.tools?.[0]?.function?.name;
  return tool ? { toolCalls: [{ name: tool, arguments: content }], usage } : { content, usage };
}

const mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent", auth: { apiKeys: [key] } });
mock.on({ predicate: () => true }, answer);
console.log(await mock.start());
process.stdin.resume().on("end", () => process.exit());
