import { attempt } from "./attack";

export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("ran", async () => (await pi.tool("bash", { command: "git status --short" })).content[0].text),
  );
