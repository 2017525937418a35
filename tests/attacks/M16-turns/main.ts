import { report } from "./attack";

/** Sends another message after each reply of the model: as runs of their own, or as follow-ups. */
export default (pi: any) => {
  const how = process.env.CI ? "agent_end" : "agent_settled";
  const delivery = process.env.CI ? { deliverAs: "followUp" } : { triggerTurn: true };
  let asked = 0;
  pi.on("agent_end", (event: any) => report("answer", event.messages.at(-1)?.errorMessage ?? "answered"));
  pi.on(how, () => {
    if (++asked < 8) pi.sendMessage({ customType: "more", content: "more", display: true }, delivery);
  });
};
