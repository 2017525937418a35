import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const name of ["Bash", "bash ", "bash\u0000", "\uff42\uff41\uff53\uff48", "./bash", "constructor", "__proto__"]) {
      await attempt(name, () => pi.tool(name, { command: "true" }));
    }
  });
