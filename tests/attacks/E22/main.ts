import { attempt, report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const changing = () => {
        let reads = 0;
        const read = () => (reads++ === 0 ? "inside.txt" : "@@outside@@/secret.txt");
        return { read, reads: () => reads };
      };
      const getter = changing();
      await attempt("getter", () => pi.fs.readText({ toJSON: getter.read } as any));
      report("getter reads", getter.reads());
      const text = changing();
      await attempt("text", () => pi.fs.readText({ toString: text.read } as any));
      report("text reads", text.reads());
      const proxy = changing();
      const input = new Proxy({ path: "" }, { get: (_, key) => (key === "path" ? proxy.read() : undefined) });
      await attempt("proxy", async () => JSON.stringify(await pi.tool("read", input)));
      report("proxy reads", proxy.reads());
      return { content: [] };
    },
  });
