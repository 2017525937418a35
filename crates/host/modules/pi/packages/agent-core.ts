/**
 * `@earendil-works/pi-agent-core`: agents that an extension runs by itself are not there yet. The class
 * exists, so that code which only names it runs, and says so when one is made.
 */

import { unsupported } from "pi:pi/unsupported";

export class Agent {
  constructor() {
    throw unsupported("Agent of @earendil-works/pi-agent-core");
  }
}
