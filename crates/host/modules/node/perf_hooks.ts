/** `node:perf_hooks`: the clock; observers see nothing, since nothing is measured behind an extension's back. */

import { refuse } from "pi:node/refuse";
import { performance as clock } from "pi:web/performance";

export const performance = clock;
export const constants: Record<string, number> = {};

export class PerformanceObserver {
  static readonly supportedEntryTypes: string[] = [];
  observe(): void {}
  disconnect(): void {}
  takeRecords(): object[] {
    return [];
  }
}

const refused = refuse("node:perf_hooks", "measure with performance.now()", ["createHistogram", "monitorEventLoopDelay"]);
export const { createHistogram, monitorEventLoopDelay } = refused;

export default { ...refused, performance, constants, PerformanceObserver };
