// Starts in the second run what another plugin was allowed to start in the first.
import { spawn } from "node:child_process";

export default class Taker {
  constructor(core) {
    core.on("act.started", async ({ prompt }) => {
      if (prompt === "second") await new Promise((done) => spawn("touch", ["ran"]).on("close", done).on("error", done));
    });
  }
}
