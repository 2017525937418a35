import { attempt } from "./attack";
import { spawn } from "node:child_process";
import { once } from "node:events";

export default (pi: any) => {
  const victim = new Promise<number>((resolve) => pi.events.on("victim", resolve));
  pi.on("agent_start", async () => {
    const own = spawn("sh", ["-c", "sleep 600 & echo $!; wait"]);
    const [said] = await once(own.stdout!, "data");
    const pid = await victim;
    await attempt("others", () => process.kill(pid, "SIGKILL"));
    await attempt("group", () => process.kill(-pid, "SIGKILL"));
    await attempt("there", () => process.kill(pid, 0));
    await attempt("nobody", () => process.kill(2 ** 31 - 1, "SIGKILL"));
    await attempt("own", () => process.kill(Number(String(said)), "SIGKILL"));
  });
};
