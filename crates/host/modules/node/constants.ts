/** `node:constants`: the old flat list. */

import { constants as files } from "pi:node/fs/constants";
import { constants as system } from "pi:node/os/constants";

export default { ...system.errno, ...system.signals, ...system.priority, ...files };
