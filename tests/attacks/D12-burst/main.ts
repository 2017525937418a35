import { report, told } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const answers: Record<string, number> = { user: 0, quota: 0 };
    const ask = (at: number) =>
      pi.exec("printf", [String(at)]).catch((error: any) => {
        const reason = String(told(error).reason);
        answers[reason] = (answers[reason] ?? 0) + 1;
      });
    await Promise.all(Array.from({ length: 1000 }, (_, at) => ask(at)));
    report("answers", answers);
  });
