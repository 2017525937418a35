import constants, { EEXIST, O_RDONLY, SIGTERM, TLS1_3_VERSION } from "node:constants";
import crypto from "node:crypto";
import dns, { ADDRCONFIG, NOTFOUND } from "node:dns";
import fs from "node:fs";
import Module from "node:module";
import { PerformanceObserver as O, performance as clock } from "node:perf_hooks";
import process, { getBuiltinModule, hrtime } from "node:process";
import util from "node:util";

const attempt = (body) => { try { return body(); } catch (error) { return `${error.name} ${error.code}: ${error.message}`; } };

console.log(process.getBuiltinModule("fs") === fs, getBuiltinModule("node:util") === util, process.getBuiltinModule("nope"), attempt(() => getBuiltinModule(1)));
console.log(getBuiltinModule("module") === Module, Module.isBuiltin("node:sqlite"), { ...Module.constants.compileCacheStatus });
console.log(hrtime === process.hrtime, typeof process.availableMemory(), Object.keys(process.resourceUsage()).length, process.hasUncaughtExceptionCaptureCallback());

for (const errno of [-2, -13, -4095, -999]) console.log(util.getSystemErrorName(errno), util.getSystemErrorMessage(errno), util.getSystemErrorMap().get(errno));
for (const wrong of [2, 1.5, "x", undefined]) console.log(attempt(() => util.getSystemErrorName(wrong)));
for (const text of [
  "A=1\nB=\"x y\"\nC='z' # c\n export D = 4 #k\nE=`m\nn`\n\nF=a#b\nG=\"a\\nb\"\nH", "A=\"unclosed\nB=2", "A=\n\nB=b=c\n=x", "A = \" x \" \r\nB='x\"y'\r\n", "A='a'b\n#B=1",
]) console.log(util.parseEnv(text));
console.log(attempt(() => util.parseEnv(1)), util.isBuffer?.(Buffer.alloc(1)));

console.log(EEXIST, O_RDONLY, SIGTERM, TLS1_3_VERSION, Object.keys(constants).length, constants.RSA_PKCS1_PADDING === crypto.constants.RSA_PKCS1_PADDING);
console.log(ADDRCONFIG, NOTFOUND, dns.V4MAPPED, dns.CANCELLED);
for (const [type, length] of [["hmac", 64], ["aes", 256], ["aes", 100], ["hmac", 4], ["rsa", 8]]) {
  console.log(attempt(() => { const key = crypto.generateKeySync(type, { length }); return `${key.type} ${key.symmetricKeySize} ${key.export().length}`; }));
}
console.log(crypto.getFips());

const seen = [];
const observer = new PerformanceObserver((list) => seen.push(list.getEntries().map((entry) => `${entry.entryType} ${entry.name}`)));
observer.observe({ entryTypes: ["mark", "measure"] });
clock.mark("a", { startTime: 5, detail: { x: 1 } });
clock.mark("b", { startTime: 9 });
const measured = clock.measure("a to b", "a", "b");
const given = clock.measure("given", { start: 1, duration: 2, detail: "d" });
console.log(measured.duration, measured.startTime, given.startTime, given.duration, given.detail, measured instanceof PerformanceMeasure, clock.getEntriesByName("a")[0].detail);
console.log(clock.getEntries().map((entry) => entry.name), attempt(() => clock.measure("x", "nope")).split("\n")[0].replace(/^.*: /, ""), O === PerformanceObserver);
await new Promise((resolve) => setTimeout(resolve, 20));
console.log(seen, observer.takeRecords());
observer.disconnect();
clock.mark("c");
clock.clearMarks("a");
console.log(clock.getEntriesByType("mark").map((entry) => entry.name).sort(), attempt(() => new PerformanceEntry()).split(":")[0], typeof clock.timerify(() => 1));

console.log(navigator.language, navigator.languages, navigator.userAgent, typeof navigator.hardwareConcurrency, navigator instanceof Navigator);
