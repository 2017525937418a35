/**
 * `pi:pi/images`: the registry of image APIs, from the real package, which adds pi's only provider as soon as any module
 * imports it; a file of that package imports it for this side effect.
 */

import { registerBuiltInImagesApiProviders } from "@earendil-works/pi-ai/dist/providers/images/register-builtins.js";

export { generateImages } from "@earendil-works/pi-ai/dist/images.js";
export { getImagesApiProvider, registerImagesApiProvider } from "@earendil-works/pi-ai/dist/images-api-registry.js";

registerBuiltInImagesApiProviders();
