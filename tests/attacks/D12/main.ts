import { attempt } from "./attack";
export default (pi: any) => pi.on("session_start", () => attempt("ran", () => pi.exec("printf", ["a\u202eb\u001b[2Jc"])));
