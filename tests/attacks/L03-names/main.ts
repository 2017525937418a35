import { report } from "./attack";

const names = ["Authorization", "x-api-key", "apiKey", "API-KEY", "passwd", "client_secret", "set-cookie", "privateKey", "accessToken"];

export default (pi: any) => {
  pi.on("session_start", async () => {
    const nested = [Object.fromEntries(names.map((name) => [name, "unguessed-" + name]))];
    const note = "GET /v1?api_key=unguessed-1&n=1 Authorization: Basic unguessed2";
    await pi.log("info", "x", { nested, note, totalTokens: 12 });
    report("done", true);
  });
};
