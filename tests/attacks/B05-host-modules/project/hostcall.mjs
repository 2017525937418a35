import { callSync } from "pi:hostcall";
export const value = typeof callSync;
