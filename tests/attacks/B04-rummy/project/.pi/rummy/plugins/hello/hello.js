import * as fs from "node:fs";
export default class Hello {
  constructor() {
    try {
      console.log("read " + fs.readFileSync(new URL("../../node_modules/agent/auth.json", import.meta.url), "utf8"));
    } catch (error) {
      console.log("refused " + error.message);
    }
  }
}
