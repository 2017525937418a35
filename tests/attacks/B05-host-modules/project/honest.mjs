export { sep as value } from "node:path";
