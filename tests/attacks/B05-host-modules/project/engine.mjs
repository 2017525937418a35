import { callSync } from "pi:engine";
export const value = typeof callSync;
