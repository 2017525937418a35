/** `pi:web/navigator`: `navigator` as in Node 22. */

import { availableParallelism, machine, platform } from "node:os";
import process from "node:process";

const PLATFORMS: Record<string, string> = { darwin: "MacIntel", win32: "Win32", linux: `Linux ${machine()}` };

class Navigator {
  get hardwareConcurrency(): number {
    return availableParallelism();
  }
  get language(): string {
    return "en-US";
  }
  get languages(): readonly string[] {
    return Object.freeze(["en-US"]);
  }
  get userAgent(): string {
    return `Node.js/${process.versions.node!.split(".")[0]}`;
  }
  get platform(): string {
    return PLATFORMS[platform()] ?? platform();
  }
}

export const navigator = new Navigator();
export { Navigator };
