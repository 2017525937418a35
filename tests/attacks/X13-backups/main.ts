import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const files = ["auth.json.bak", "auth.json~", "mcp.json", "mcp.json.bak", "oauth.json", "notes.json"];
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const file of files) {
      await attempt(file, () => spawnSync("sh", ["-c", `cat '@@agent@@/${file}' > /dev/null`], { encoding: "utf8" }).status);
    }
  });
