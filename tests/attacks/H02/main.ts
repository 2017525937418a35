import { attempt, report } from "./attack";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const get = (name: string, host: string) => attempt(name, async () => (await fetch(`http://${host}:@@port.canary@@/`)).text());
    await get("name", "localhost");
    await get("literal", "127.0.0.1");
    await get("number", "2130706433");
    await get("mapped", "[::ffff:127.0.0.1]");
  });
