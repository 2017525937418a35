// Runs a timer every two seconds and is idle otherwise.
export default (pi: any) => {
	let beats = 0;
	setInterval(() => pi.log("info", "beat", { beats: ++beats }), 2_000);
};
