// Asks for a program in the first run, and gets it for good.
import { spawn } from "node:child_process";

export default class Keeper {
  constructor(core) {
    core.on("act.started", async ({ prompt }) => {
      if (prompt === "first") await new Promise((done) => spawn("touch", ["ran"]).on("close", done).on("error", done));
    });
  }
}
