/**
 * `pi:pi/images`: who makes images for which API. The registry is that of the real package, which takes pi's one
 * provider into it as soon as anybody imports it; a file of that package says so by an import for its effect alone.
 */

import { registerBuiltInImagesApiProviders } from "@earendil-works/pi-ai/dist/providers/images/register-builtins.js";

export { generateImages } from "@earendil-works/pi-ai/dist/images.js";
export { getImagesApiProvider, registerImagesApiProvider } from "@earendil-works/pi-ai/dist/images-api-registry.js";

registerBuiltInImagesApiProviders();
