import * as fs from "node:fs";
export default class Reader {
  constructor() {
    try {
      console.log("read " + fs.readFileSync(new URL("../../bundle0/secret.txt", import.meta.url), "utf8"));
    } catch (error) {
      console.log("refused " + error.message);
    }
  }
}
