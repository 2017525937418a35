import { report } from "./attack";

/** Each line takes nearly the whole write limit: less than that returns while the next is sent. */
export default (pi: any) => {
  pi.on("session_start", async () => {
    const filling = "x".repeat(4_000_000);
    for (let sent = 0; sent < 4; sent += 1) pi.log("info", "flood", { filling });
    await new Promise((resolve) => setTimeout(resolve, 400));
    pi.log("info", "after the flood", {});
    report("done", true);
  });
};
