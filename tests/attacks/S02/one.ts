import { report } from "./attack";

export default (pi: any) => {
  pi.on("agent_end", () => {
    for (let n = 0; n < 400; n++) pi.appendEntry("one", { n });
    report("one", true);
  });
};
