// A graph or swarm, node by node: shown only.

import { el } from "./dom.js";
import { prose, typed } from "./prose.js";

/** Draws an orchestrator as far as its state may be read. */
export function drawOrchestrator({ kind, multi_agent_id: name, state }) {
  const made = el("section", { class: "orchestrator", "aria-label": `${kind} ${name}` });
  const facts = el("p", { class: "by" }, el("span", { class: "name", text: [kind || gettext("Orchestrator"), `“${name}”`].join(" ") }));
  made.append(facts);
  if (!state || typeof state !== "object") {
    made.append(el("p", { class: "hint", text: gettext("You do not have permission to see its state.") }));
    return made;
  }
  if (state.status) facts.append(el("span", { class: "chip", text: String(state.status) }));
  const list = el("ol", { class: "messages" });
  const task = wordsOf(state.current_task);
  if (task) list.append(row("user", gettext("Task"), typed(task)));
  for (const node of Array.isArray(state.execution_order) ? state.execution_order : []) {
    const answer = wordsOf(state.node_results?.[node]?.result?.message?.content);
    list.append(row("assistant", String(node), answer ? prose(answer) : el("p", { class: "hint", text: gettext("No text.") })));
  }
  made.append(list);
  return made;
}

const row = (side, name, said) =>
  el("li", { class: `message ${side}` }, el("p", { class: "by" }, el("span", { class: "name", text: name })), el("div", { class: "said" }, said));

function wordsOf(value) {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return "";
  return value.map((block) => (typeof block?.text === "string" ? block.text : "")).filter(Boolean).join("\n");
}
