import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
declare const process: any;

/** Length of a statement in bytes, below the limit of a call. */
const LONG = 14 << 20;

const shapes: Record<string, [string, string]> = {
  from: ["SELECT*FROM(", ")"],
  with: ["WITH t AS(", ")SELECT*FROM t"],
};

const nested = ([before, after]: [string, string], depth: number) =>
  `${before.repeat(depth)}SELECT 1 AS a${after.repeat(depth)}`;

export default (pi: any) =>
  pi.on("session_start", async () => {
    const shape = shapes[process.env.SHAPE];
    await attempt("deep", () => new DatabaseSync(":memory:").exec(nested(shape, LONG / shape.join("").length)));
    await attempt("flat", () => (new DatabaseSync(":memory:").prepare(nested(shape, 20)).get() as any).a);
  });
