/** `@earendil-works/pi-ai/oauth`: has no names at run time in pi 0.87.1, and exists. */

export {};
