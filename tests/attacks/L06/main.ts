import { attempt } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    for (const name of ["one", "two", "three"]) await attempt(name, () => pi.log("info", name, {}));
  });
};
