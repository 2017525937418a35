/** `@earendil-works/pi-ai/oauth`: an existing module without names at run time in pi 0.87.1. */

export {};
