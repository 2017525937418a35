import { report } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const answers = { user: 0, quota: 0, ran: 0 };
    const ask = async (at: number) => {
      const { stderr } = await pi.exec("printf", [String(at)]);
      if (stderr.includes("denied by the user")) answers.user++;
      else if (stderr.includes("denied without a prompt")) answers.quota++;
      else answers.ran++;
    };
    await Promise.all(Array.from({ length: 1000 }, (_, at) => ask(at)));
    report("answers", answers);
  });
