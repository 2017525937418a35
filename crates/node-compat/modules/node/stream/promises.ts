/** `node:stream/promises`: `finished` and `pipeline` as promises. */

import { finishedPromise as finished } from "pi:node/stream/finished";
import { pipelinePromise as pipeline } from "pi:node/stream/pipeline";
import "pi:node/stream/compose";

export { finished, pipeline };
export default { finished, pipeline };
