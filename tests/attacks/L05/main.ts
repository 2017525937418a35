import { attempt } from "./attack";

declare const process: any;

export default (pi: any) => pi.on("session_start", () => attempt("pin", () => process.env.PIN));
