import { attempt } from "./attack";
const nested = (depth: number) => "{".repeat(depth) + "a" + "}".repeat(depth);
const globs: Record<string, string> = { nested: nested(300), deep: nested(200_000), long: "a".repeat(900_000) };
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, glob] of Object.entries(globs)) {
      await attempt(`find ${name}`, () => pi.tool("find", { pattern: glob }));
      await attempt(`grep ${name}`, () => pi.tool("grep", { pattern: "x", glob }));
    }
  });
