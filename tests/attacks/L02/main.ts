import { report } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    const text = "x".repeat(6_000);
    for (let sent = 0; sent < 2_000; sent += 50) {
      await Promise.all(Array.from({ length: 50 }, () => Promise.resolve(pi.log("info", text, {})).catch(() => {})));
    }
    await new Promise((resolve) => setTimeout(resolve, 400));
    await pi.log("info", "after the flood", {});
    report("done", true);
  });
};
