import { report } from "./attack";
export default () => report("ran", "bytecode");
