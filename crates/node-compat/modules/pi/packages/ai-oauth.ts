/** `@earendil-works/pi-ai/oauth`: a module that exports no values in pi 0.87.1. */

export {};
