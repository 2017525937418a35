// Observes an hour of work: replies, tools, and a clock that ticks thirty times for each prompt.
export default (pi: any) => {
	let [words, tools, ticks] = [0, 0, 0];
	pi.on("stream_text", ({ chunk }: any) => {
		words += chunk.length;
	});
	pi.on("tool_result", () => {
		tools++;
	});
	pi.on("agent_start", async () => {
		for (let tick = 0; tick < 30; tick++) {
			await new Promise((done) => setTimeout(done, 1));
			ticks++;
		}
		pi.log("info", "so far", { words, tools, ticks });
	});
};
