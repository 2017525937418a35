/**
 * `@earendil-works/pi-agent-core`: agents and their loops come from the real package beside this module; they
 * take no authority, only stream functions and tools. How an agent speaks by itself is the host's.
 */

export { setDefaultStreamFn } from "pi:pi/default-stream";
