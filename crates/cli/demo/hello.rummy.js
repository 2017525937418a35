// A plugin of rummy: a hook that writes an entry, and a block of its own in what the model sees.
export default class Hello {
	constructor(core) {
		core.registerScheme({ category: "data" });
		core.on("visible", (entry) => entry.body);
		core.on("turn.started", async ({ rummy, loopIteration }) => {
			if (loopIteration === 1) await rummy.set({ path: "hello://project", body: "This project says hello." });
		});
		core.filter("assembly.user", async (content, ctx) => `${content}\n<hello turn="${ctx.turn}"/>`, 160);
	}
}
