/**
 * `@earendil-works/pi-ai` and `@mariozechner/pi-ai`. Its pure names come from the real package, beside this
 * module; what calls a model is not there yet.
 */

export {};
