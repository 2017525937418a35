/**
 * `@earendil-works/pi-agent-core`: agents and their loops, from the real package. They need no authority, only stream
 * functions and tools. The default stream function is the host's.
 */

export { setDefaultStreamFn } from "pi:pi/default-stream";
