import { spawn } from "node:child_process";

export default (pi: any) => pi.on("session_start", () => pi.events.emit("victim", spawn("sleep", ["600"]).pid));
