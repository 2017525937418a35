import { report } from "./attack";

const laden = (): unknown => {
  const error = new Error("laden");
  for (const key of ["message", "name", "stack", "cause"]) Object.defineProperty(error, key, { get: () => { throw new Error(`${key} was read`); } });
  return error;
};
const forbidding = new Proxy(new Error("behind"), {
  get: () => { throw new Error("read"); },
  getPrototypeOf: () => { throw new Error("asked"); },
  has: () => { throw new Error("asked"); },
  ownKeys: () => { throw new Error("asked"); },
  getOwnPropertyDescriptor: () => { throw new Error("asked"); },
});
const endless: any = Object.create(null);

const deeds: Record<string, () => void> = {
  "a hundred thousand": () => { for (let at = 0; at < 100_000; at++) void Promise.reject(at); },
  "nothing": () => { for (let at = 0; at < 200; at++) void Promise.reject(at % 2 ? null : undefined); },
  "a proxy": () => { for (let at = 0; at < 200; at++) void Promise.reject(forbidding); },
  "an error whose members throw": () => { for (let at = 0; at < 200; at++) void Promise.reject(laden()); },
  "what has no text": () => { for (let at = 0; at < 200; at++) void Promise.reject(endless); },
  "symbols": () => { for (let at = 0; at < 200; at++) void Promise.reject(Symbol("mine")); },
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      deeds[input.deed]!();
      await new Promise((done) => setTimeout(done, 10));
      report("alive", true);
      return { content: [] };
    },
  });
