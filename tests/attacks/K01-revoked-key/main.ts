import { report } from "./attack";

export default (pi: any) => pi.on("session_start", () => report("ran", "first"));
