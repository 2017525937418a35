/**
 * `pi:pi/builtin-providers`: pi-ai's collections of all providers. The real package defines the collections; the providers
 * are the session's, and pi's only provider of images.
 */

import { createImagesModels } from "@earendil-works/pi-ai/dist/images-models.js";
import { createModels } from "@earendil-works/pi-ai/dist/models.js";
import { openrouterImagesProvider } from "@earendil-works/pi-ai/dist/providers/openrouter-images.js";
import { builtinProviders } from "@earendil-works/pi-ai/providers/all";

interface Collection {
  setProvider(provider: object): void;
}

function filled<C extends Collection>(collection: C, providers: object[]): C {
  for (const provider of providers) collection.setProvider(provider);
  return collection;
}

export const builtinModels = (options?: object): Collection => filled(createModels(options), builtinProviders());

export const builtinImagesProviders = (): object[] => [openrouterImagesProvider()];
export const builtinImagesModels = (options?: object): Collection => filled(createImagesModels(options), builtinImagesProviders());
