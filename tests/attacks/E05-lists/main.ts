import { attempt } from "./attack";

const MANY = 100_000;
const times = (work: (at: number) => void) => {
  for (let at = 0; at < MANY; at++) work(at);
};

/** Each list is filled in a turn of its own, since a turn has a deadline. */
const inTurn = async (name: string, work: () => unknown) => {
  await attempt(name, work);
  await new Promise((resolve) => setTimeout(resolve));
};

/** An operation that searches the whole list would take 10^10 steps. */
export default (pi: any) =>
  pi.on("session_start", async () => {
    await inTurn("headers", () => {
      const headers = new Headers([["x", "first"]]);
      times(() => headers.append("x", "y"));
      return headers.get("x")!.split(", ").length;
    });
    await inTurn("names", () => {
      const headers = new Headers();
      times((at) => headers.append(`x-${at}`, "y"));
      times((at) => headers.has(`x-${at}`) && headers.get(`x-${at}`));
      return [...headers].length;
    });
    await inTurn("set", () => {
      const headers = new Headers();
      times((at) => headers.set(`x-${at}`, "y"));
      times((at) => headers.set(`x-${at}`, "z"));
      return [...headers.keys()].length;
    });
    await inTurn("parameters", () => {
      const parameters = new URLSearchParams();
      times((at) => parameters.append(`x${at}`, "y"));
      times((at) => parameters.set(`x${at}`, "z"));
      times((at) => parameters.get(`x${at}`));
      return parameters.size;
    });
    await inTurn("of a URL", () => {
      const url = new URL("http://a.example/");
      times((at) => url.searchParams.append(`x${at}`, "y"));
      return url.search.split("&").length;
    });
    await inTurn("record", () => new URLSearchParams(Object.fromEntries(Array.from({ length: MANY }, (_, at) => [`x${at}`, "y"]))).size);
    await inTurn("form", () => {
      const form = new FormData();
      times((at) => form.append(`x${at}`, "y"));
      times((at) => form.set(`x${at}`, "z"));
      times((at) => form.get(`x${at}`));
      return [...form.keys()].length;
    });
    await inTurn("listeners", () => {
      const target = new EventTarget();
      let heard = 0;
      const listeners = Array.from({ length: MANY }, () => () => void heard++);
      for (const listener of listeners) target.addEventListener("x", listener);
      target.dispatchEvent(new Event("x"));
      for (const listener of listeners) target.removeEventListener("x", listener);
      target.dispatchEvent(new Event("x"));
      return heard;
    });
    await inTurn("signals", () => {
      const controller = new AbortController();
      const followers: AbortSignal[] = [];
      times(() => followers.push(AbortSignal.any([controller.signal])));
      controller.abort();
      return followers.filter((signal) => signal.aborted).length;
    });
    await inTurn("sources", () => {
      const controllers = Array.from({ length: MANY }, () => new AbortController());
      const signal = AbortSignal.any(controllers.map((controller) => controller.signal));
      controllers[MANY - 1]!.abort();
      return signal.aborted;
    });
  });
