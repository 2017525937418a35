import { report } from "./attack";

declare const process: any;

export default (pi: any) => {
  pi.on("session_start", async () => {
    const secret = process.env.SERVICE_API_KEY;
    await pi.log("info", "value " + secret, { inside: { list: ["https://x/?q=" + secret + "&n=1"] } });
    await pi.log("info", "encoded " + btoa(secret), { more: btoa("a" + secret + "b"), url: encodeURIComponent(secret) });
    await pi.log("info", "named", { list: [{ apiKey: secret }], [secret]: 1 });
    await pi.log("error", new Error("failed for " + secret).message, {});
    console.log("printed " + secret);
    report("done", true);
  });
  pi.on("agent_end", () => {
    throw new Error("threw " + process.env.SERVICE_API_KEY);
  });
};
