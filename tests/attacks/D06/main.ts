import { attempt } from "./attack";
export default (pi: any) => pi.on("session_start", () => attempt("big", () => pi.appendEntry("big", "y".repeat(20 << 20))));
