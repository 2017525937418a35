/** `node:os`: facts of the machine that the host provides. No member calls the host. */

import { facts } from "pi:engine";
import { coded } from "pi:node/errors";
import { constants as all } from "pi:node/os/constants";

const machineFacts: Record<string, any> = facts.os ?? {};
const windows = facts.platform === "win32";

export const EOL = windows ? "\r\n" : "\n";
export const devNull = windows ? "\\\\.\\nul" : "/dev/null";
export const constants = all;

export function platform(): string {
  return facts.platform ?? "linux";
}
export function arch(): string {
  return facts.arch ?? "x64";
}
export function type(): string {
  return machineFacts.type ?? ({ darwin: "Darwin", win32: "Windows_NT" }[platform()] ?? "Linux");
}
export function homedir(): string {
  const home = facts.env?.HOME ?? facts.homedir;
  if (typeof home !== "string" || home === "") {
    throw coded(Error, "ERR_SYSTEM_ERROR", "A system error occurred: uv_os_homedir returned ENOENT (the host told no home directory)");
  }
  return home;
}
export function tmpdir(): string {
  const told = facts.env?.TMPDIR ?? facts.env?.TMP ?? facts.env?.TEMP ?? facts.tmpdir ?? "/tmp";
  return told.length > 1 && told.endsWith("/") ? told.slice(0, -1) : told;
}
export function hostname(): string {
  return machineFacts.hostname ?? facts.hostname ?? "localhost";
}
export function release(): string {
  return machineFacts.release ?? "";
}
export function version(): string {
  return machineFacts.version ?? "";
}
export function machine(): string {
  return machineFacts.machine ?? ({ x64: "x86_64", arm64: platform() === "darwin" ? "arm64" : "aarch64" }[arch()] ?? arch());
}
export function endianness(): "LE" | "BE" {
  return new Uint8Array(Uint16Array.of(1).buffer)[0] === 1 ? "LE" : "BE";
}
/** Returns one entry, without times: the host does not expose the number of processors. */
export function cpus(): object[] {
  const count = Number(machineFacts.cpus ?? 1);
  return Array.from({ length: count }, () => ({ model: "unknown", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }));
}
export function availableParallelism(): number {
  return Number(machineFacts.cpus ?? 1);
}
export function totalmem(): number {
  return Number(machineFacts.totalmem ?? 0);
}
export function freemem(): number {
  return Number(machineFacts.freemem ?? machineFacts.totalmem ?? 0);
}
export function uptime(): number {
  return Number(machineFacts.uptime ?? 0);
}
export function loadavg(): number[] {
  return [0, 0, 0];
}
/** Returns no interfaces: extensions do not see addresses. */
export function networkInterfaces(): Record<string, object[]> {
  return {};
}
export function userInfo(): { uid: number; gid: number; username: string; homedir: string; shell: string | null } {
  return {
    uid: Number(facts.uid ?? -1),
    gid: Number(facts.gid ?? -1),
    username: facts.env?.USER ?? facts.env?.LOGNAME ?? facts.user ?? "user",
    homedir: homedir(),
    shell: facts.env?.SHELL ?? null,
  };
}
export function getPriority(): number {
  return 0;
}
export function setPriority(): never {
  throw coded(Error, "EACCES", "os.setPriority is not available in a PiJS realm: an extension does not schedule processes");
}

export default {
  EOL, devNull, constants, platform, arch, type, homedir, tmpdir, hostname, release, version, machine, endianness, cpus,
  availableParallelism, totalmem, freemem, uptime, loadavg, networkInterfaces, userInfo, getPriority, setPriority,
};
