import { runInNewContext } from "node:vm";
import { attemptSync, report } from "./attack";

const text = "globalThis.ran = [1 + 1]";
const [AsyncFunction, GeneratorFunction, AsyncGeneratorFunction] = [async () => {}, function* () {}, async function* () {}].map(
  (of) => of.constructor as any,
);

export default (pi: any) => {
  pi.on("session_start", () => {
    attemptSync("Function", () => Function(text)());
    attemptSync("new Function", () => new Function("a", text)());
    attemptSync("async", () => new AsyncFunction(text)());
    attemptSync("generator", () => GeneratorFunction(text)().next());
    attemptSync("async generator", () => new AsyncGeneratorFunction(text)().next());
    attemptSync("prototype", () => Object.getPrototypeOf(Object.getPrototypeOf(AsyncFunction)).constructor(text)());
    attemptSync("bound", () => Function.bind(null, "a")(text)());
    attemptSync("applied", () => Function.apply(null, ["a", text])());
    attemptSync("Reflect", () => (Reflect.construct(Function, [text], Array) as any)());
    attemptSync("derived", () => new (class extends Function {})(text)());
    attemptSync("eval", () => eval(text));
    attemptSync("indirect", () => (globalThis as any).eval(text));
    attemptSync("vm", () => runInNewContext(text));
    attemptSync("probe", () => new Function(""));
    report("ran", (globalThis as any).ran ?? null);
  });
};
