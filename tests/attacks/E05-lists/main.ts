import { attempt } from "./attack";

const MANY = 100_000;
const times = (work: (at: number) => void) => {
  for (let at = 0; at < MANY; at++) work(at);
};

/** What takes a look at all that is there for each that comes takes ten thousand million. */
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("headers", () => {
      const headers = new Headers([["x", "first"]]);
      times(() => headers.append("x", "y"));
      return headers.get("x")!.split(", ").length;
    });
    await attempt("names", () => {
      const headers = new Headers();
      times((at) => headers.append(`x-${at}`, "y"));
      times((at) => headers.has(`x-${at}`) && headers.get(`x-${at}`));
      return [...headers].length;
    });
    await attempt("set", () => {
      const headers = new Headers();
      times((at) => headers.set(`x-${at}`, "y"));
      times((at) => headers.set(`x-${at}`, "z"));
      return [...headers.keys()].length;
    });
    await attempt("parameters", () => {
      const parameters = new URLSearchParams();
      times((at) => parameters.append(`x${at}`, "y"));
      times((at) => parameters.set(`x${at}`, "z"));
      times((at) => parameters.get(`x${at}`));
      return parameters.size;
    });
    await attempt("of a URL", () => {
      const url = new URL("http://a.example/");
      times((at) => url.searchParams.append(`x${at}`, "y"));
      return url.search.split("&").length;
    });
    await attempt("record", () => new URLSearchParams(Object.fromEntries(Array.from({ length: MANY }, (_, at) => [`x${at}`, "y"]))).size);
    await attempt("form", () => {
      const form = new FormData();
      times((at) => form.append(`x${at}`, "y"));
      times((at) => form.set(`x${at}`, "z"));
      times((at) => form.get(`x${at}`));
      return [...form.keys()].length;
    });
    await attempt("listeners", () => {
      const target = new EventTarget();
      let heard = 0;
      const listeners = Array.from({ length: MANY }, () => () => void heard++);
      for (const listener of listeners) target.addEventListener("x", listener);
      target.dispatchEvent(new Event("x"));
      for (const listener of listeners) target.removeEventListener("x", listener);
      target.dispatchEvent(new Event("x"));
      return heard;
    });
    await attempt("signals", () => {
      const controller = new AbortController();
      const followers: AbortSignal[] = [];
      times(() => followers.push(AbortSignal.any([controller.signal])));
      controller.abort();
      return followers.filter((signal) => signal.aborted).length;
    });
    await attempt("sources", () => {
      const controllers = Array.from({ length: MANY }, () => new AbortController());
      const signal = AbortSignal.any(controllers.map((controller) => controller.signal));
      controllers[MANY - 1]!.abort();
      return signal.aborted;
    });
  });
