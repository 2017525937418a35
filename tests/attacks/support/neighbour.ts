/** An honest extension beside a hostile one: it wants to see the whole session (invariant N3). */

import { report } from "./attack";

export default function (pi: any) {
  const seen: string[] = [];
  for (const name of ["session_start", "before_agent_start", "agent_start", "turn_start", "turn_end", "agent_end"]) {
    pi.on(name, () => {
      seen.push(name);
    });
  }
  pi.on("session_shutdown", () => {
    const missing = ["session_start", "agent_start", "agent_end"].filter((name) => !seen.includes(name));
    report("neighbour", missing.length === 0 ? "saw everything" : `missed ${missing.join(", ")}`);
  });
}
