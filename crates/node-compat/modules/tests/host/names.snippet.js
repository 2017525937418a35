import dns, { lookup } from "node:dns";
import promises from "node:dns/promises";
import { promisify } from "node:util";

const failed = async (what, body) => {
  try {
    log(`${what}: ${JSON.stringify(await body())}`);
  } catch (error) {
    log(`${what}: ${error.name} ${error.code} ${error.message}`);
  }
};

await failed("a literal", () => promises.lookup("127.0.0.1"));
await failed("of version 6", () => promises.lookup("::1", { all: true }));
await failed("all", () => promises.lookup("10.1.2.3", { all: true, verbatim: true }));
await failed("localhost", () => promises.lookup("localhost", { family: 4 }));
await failed("localhost, all", () => promises.lookup("localhost", { family: 4, all: true }));
await failed("a family", () => promises.lookup("127.0.0.1", 4));
await failed("a wrong family", () => promises.lookup("127.0.0.1", 5));
await failed("no name", () => promises.lookup(""));
await failed("no name, all", () => promises.lookup("", { all: true }));
await failed("a wrong name", () => promises.lookup(5));
await failed("no callback", () => lookup("127.0.0.1"));
await failed("promisify", () => promisify((name, done) => lookup(name, { all: true }, done))("127.0.0.1"));
await new Promise((resolve) => {
  lookup("::1", (error, address, family) => {
    log(`callback: ${error} ${address} ${family}`);
    resolve();
  });
  log("not yet");
});
log(`${typeof dns.Resolver} ${typeof dns.promises.lookup} ${dns.promises === promises} ${dns.getDefaultResultOrder()}`);
log(`${lookup.name} ${typeof dns.resolve4} ${typeof dns.lookupService}`);
