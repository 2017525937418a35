// Works at each prompt: timers, hostcalls of both kinds, a denied hostcall, and a reply that a verdict stops.
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

const pause = () => new Promise((done) => setTimeout(done, 1));

export default (pi: any) => {
	const rounds = Number(readFileSync("rounds.txt", "utf8"));
	pi.on("agent_start", async () => {
		for (let round = 0; round < rounds; round++) {
			const there = readFileSync("notes.txt", "utf8").length;
			const text = await readFile("notes.txt", "utf8");
			const ran = await pi.exec("uname", ["-a"]).then(
				() => "ran",
				(error: any) => error.code ?? error.name,
			);
			pi.log("info", "round", { round, there, length: text.length, ran, random: Math.random(), at: Date.now() });
			await pause();
		}
	});
	pi.on("stream_text", ({ accumulated }: any) => {
		if (accumulated.includes("TODO")) return { abort: true, retry: { content: "Leave no TODO." } };
	});
};
