/** Assembles the model's view: instructions, known entries, log, unknowns, budget and prompt. Enforces the mode of a run. */

import { attributes, block, type Core, escaped, isFile, statusOf, tag } from "./shared.ts";

const SHOWN = new Set(["data"]);

const shown = (row: any, name: string): string => tag(name, { path: row.path, status: statusOf(row), turn: row.source_turn, tags: attributes(row).tags, tokens: row.tokens }, row.body ?? "");

const nameOf = (row: any): string => (row.scheme === null || row.scheme === undefined ? "file" : row.scheme);

export class Known {
  constructor(core: Core) {
    core.ensureTool();
    core.markHidden();
    core.registerScheme({ category: "data" });
    core.on("visible", (entry: any) => entry.body);
    core.on("summarized", () => "");
    const rows = (ctx: any, visibility: string) => ctx.rows.filter((row: any) => SHOWN.has(row.category) && row.visibility === visibility);
    core.filter("assembly.user", async (content: string, ctx: any) =>
      block(content, "summary", rows(ctx, "summarized").map((row: any) => shown(row, nameOf(row)))), 50);
    core.filter("assembly.user", async (content: string, ctx: any) =>
      block(content, "visible", rows(ctx, "visible").map((row: any) => shown(row, nameOf(row)))), 75);
  }
}

export class File_ {
  constructor(core: Core) {
    for (const name of ["file", "http", "https"]) {
      core.registerScheme({ name, category: "data", writableBy: ["model", "plugin", "client"] });
      core.hooks.tools.onView(name, (entry: any) => entry.body, "visible");
      core.hooks.tools.onView(name, () => "", "summarized");
    }
  }
}

export class Log {
  constructor(core: Core) {
    core.hooks.tools.onView("log", (entry: any) => entry.body, "visible");
    core.hooks.tools.onView("log", () => "", "summarized");
    core.filter("assembly.user", async (content: string, ctx: any) => {
      const last = ctx.rows.findLast((row: any) => row.category === "prompt");
      const isLogged = (row: any) => row.category === "logging" || (row.category === "prompt" && row !== last);
      // All prompts except the last are part of the log.
      const logged = ctx.rows.filter(isLogged).sort((one: any, other: any) => one.source_turn - other.source_turn);
      return block(content, "log", logged.map((row: any) => shown(row, attributes(row).action ?? nameOf(row))));
    }, 100);
  }
}

export class Unknown {
  constructor(core: Core) {
    core.ensureTool();
    core.markHidden();
    core.registerScheme({ category: "unknown" });
    core.on("visible", (entry: any) => entry.body);
    core.on("summarized", () => "");
    core.filter("assembly.user", async (content: string, ctx: any) =>
      block(content, "unknowns", ctx.rows.filter((row: any) => row.category === "unknown").map((row: any) => shown(row, "unknown"))), 150);
  }
}

export class Prompt {
  constructor(core: Core) {
    const SUMMARY = 500;
    // The first turn of a loop begins with the user's prompt.
    core.on("turn.started", async ({ rummy, mode, prompt, isContinuation }: any) => {
      if (isContinuation) return;
      const place = { runId: rummy.runId, turn: rummy.sequence, loopId: rummy.loopId };
      const path = await rummy.entries.slugPath(rummy.runId, "prompt", `turn ${rummy.sequence}`);
      await rummy.entries.set({ ...place, path, body: prompt, state: "resolved", visibility: "visible", attributes: { mode } });
    });
    core.on("visible", (entry: any) => entry.body);
    core.on("summarized", (entry: any) =>
      entry.body.length > SUMMARY ? `${entry.body.slice(0, SUMMARY)}\n[truncated — promote to see the complete prompt]` : entry.body);
    core.filter("assembly.user", async (content: string, ctx: any) => {
      const last = ctx.rows.findLast((row: any) => row.category === "prompt");
      if (!last) return content;
      const free = ctx.budget ? { tokensFree: ctx.budget.tokensFree, tokenUsage: ctx.budget.tokenUsage } : {};
      return `${content}${tag("prompt", { mode: ctx.type, ...free }, last.body)}`;
    }, 30);
  }
}

const BASE = [
  "You work on a project by writing tags. Each tag is one command; text outside of tags is not read by anybody.",
  "What a command came to stands in <log> of the next turn, with a status: 2xx done, 102 growing, 202 waits for the user, 4xx and 5xx not done.",
  "Write what you find out with <set path=\"known://...\">, and open questions with <set path=\"unknown://...\">.",
  "End every turn with exactly one <update>.",
].join("\n");

export class Instructions {
  constructor(core: Core) {
    core.hooks.instructions.resolveSystemPrompt = async (rummy: any) => {
      const docs = await core.hooks.instructions.toolDocs.filter({}, { toolSet: rummy.toolSet });
      const words = core.hooks.tools.advertisedNames.filter((name: string) => rummy.toolSet?.has(name) && docs[name]).map((name: string) => docs[name]);
      return [BASE, "# Tools", ...words].join("\n\n");
    };
    core.filter("assembly.user", async (content: string, ctx: any) =>
      `${content}\n<instructions>Turn ${ctx.turn}. End it with one update.</instructions>`, 165);
  }
}

export class Budget {
  constructor(core: Core) {
    core.filter("assembly.user", async (content: string, { budget }: any) =>
      budget ? `${content}\n${budget.table}` : content, 175);
  }
}

/** Rejects commands that change the project in a run in mode `ask`. */
export class Policy {
  constructor(core: Core) {
    core.filter("entry.recording", async (entry: any, { mode }: any) => {
      if (mode !== "ask" || entry.state === "failed") return entry;
      const { path = "", to = "" } = entry.attributes ?? {};
      const changesFiles = ["set", "rm", "mv"].includes(entry.scheme) && isFile(String(path)) && path !== "";
      const writesFile = ["cp", "mv"].includes(entry.scheme) && to !== "" && isFile(String(to));
      if (entry.scheme !== "sh" && !changesFiles && !writesFile) return entry;
      return { ...entry, state: "failed", outcome: "permission", body: `403: ${entry.scheme} ${escaped(path)} is not possible in ask mode` };
    }, 5);
  }
}

/** Records errors that belong to no action as entries. */
export class Errors {
  constructor(core: Core) {
    core.registerScheme({ name: "error", category: "logging", writableBy: ["model", "plugin", "system"] });
    core.hooks.tools.onView("error", (entry: any) => entry.body, "visible");
    core.hooks.tools.onView("error", (entry: any) => entry.body, "summarized");
    let number = 0;
    core.on("error.log", async ({ store, runId, turn, loopId, message, status = 400, attributes: more = {} }: any) => {
      const entries = store ?? core.entries;
      number += 1;
      const path = `error://turn_${turn}/${number}`;
      await entries.set({ runId, turn, loopId, path, body: message, state: "failed", outcome: `status:${status}`, visibility: "visible", attributes: { status, ...more } });
    });
  }
}
