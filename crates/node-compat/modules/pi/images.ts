/**
 * `pi:pi/images`: the registry of image APIs. It is that of the real package, which adds pi's one provider as soon as anything
 * imports it; a file of that package does so by an import for its side effect.
 */

import { registerBuiltInImagesApiProviders } from "@earendil-works/pi-ai/dist/providers/images/register-builtins.js";

export { generateImages } from "@earendil-works/pi-ai/dist/images.js";
export { getImagesApiProvider, registerImagesApiProvider } from "@earendil-works/pi-ai/dist/images-api-registry.js";

registerBuiltInImagesApiProviders();
