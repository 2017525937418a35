/**
 * Collects the texts of pi's system prompt, built-in tools and summary requests, by running pi's own code with marks in place
 * of the values that a session fills in.
 *
 * The prompt is read where every extension sees it, in a `before_agent_start` handler. The result of the tool `words` has the
 * shape of `Words` in `pijs_tools`; its input names the available tools.
 */

import type { BuildSystemPromptOptions, ExtensionAPI, ToolDefinition } from "@earendil-works/pi-coding-agent";
import {
  createBashToolDefinition,
  createEditToolDefinition,
  createExtensionRuntime,
  createFindToolDefinition,
  createGrepToolDefinition,
  createLsToolDefinition,
  createPowerShellToolDefinition,
  createReadToolDefinition,
  createWriteToolDefinition,
  compact,
  ExtensionRunner,
  generateBranchSummary,
  generateSummary,
  getPackageDir,
} from "@earendil-works/pi-coding-agent";

/** Placeholder for a value that a session fills in; no text of pi contains it. */
const MARK = "\u0001";
const NOWHERE = "/";

type Options = Partial<BuildSystemPromptOptions>;

/** Returns the whole prompt that pi creates from these options. */
async function prompt(options: Options): Promise<string> {
  let seen: string | undefined;
  const look = (event: { systemPrompt: string }) => {
    seen = event.systemPrompt;
  };
  const extension = { path: "words", handlers: new Map([["before_agent_start", [look]]]) };
  const nothing = undefined as never;
  const runner = new ExtensionRunner([extension as never], createExtensionRuntime(), NOWHERE, nothing, nothing);
  await runner.emitBeforeAgentStart("", undefined, { cwd: NOWHERE, ...options } as BuildSystemPromptOptions);
  if (seen === undefined) throw new Error("pi did not show its prompt");
  return seen;
}

/** Returns the content of a section; `undefined` when it is missing. */
function section(text: string, name: string): string | undefined {
  const [open, close] = [`\n\n<${name}>\n`, `\n</${name}>`];
  const from = text.indexOf(open);
  const to = text.indexOf(close, from);
  return from < 0 || to < 0 ? undefined : text.slice(from + open.length, to);
}

/** Returns the content of a required section. */
async function sectionOf(options: Options, name: string): Promise<string> {
  const found = section(await prompt(options), name);
  if (found === undefined) throw new Error(`pi's prompt has no section ${name}`);
  return found;
}

/** Returns the text before and after a unique substring. */
function around(text: string, inner: string): { before: string; after: string } {
  const [before, after, ...more] = text.split(inner);
  if (before === undefined || after === undefined || more.length > 0) {
    throw new Error(`${JSON.stringify(inner)} does not stand once in ${JSON.stringify(text)}`);
  }
  return { before, after };
}

async function toolList() {
  const one = await sectionOf({ selectedTools: [MARK], toolSnippets: { [MARK]: MARK } }, "tools");
  const { before, after } = around(one, `- ${MARK}: ${MARK}`);
  const empty = await sectionOf({ selectedTools: [] }, "tools");
  return { before, after, none: empty.slice(before.length, empty.length - after.length) };
}

/** Returns the rules before and after those of tools, for a set of tools. */
async function rulesFor(tools: string[]) {
  const options = { selectedTools: [...tools, MARK], toolGuidelines: { [MARK]: [MARK] } };
  const rules = (await sectionOf(options, "rules")).slice("- ".length).split("\n- ");
  const at = rules.indexOf(MARK);
  if (at < 0) throw new Error("pi's prompt does not show the rule of a tool");
  return { tools, first: rules.slice(0, at), last: rules.slice(at + 1) };
}

/** Returns all subsets of names, each in the order of the names. */
function choices(names: string[]): string[][] {
  return names.reduce<string[][]>((all, name) => [...all, ...all.map((choice) => [...choice, name])], [[]]);
}

/** Returns the tools that affect the rules, and the rules of each subset of them. */
async function rules(names: string[]) {
  const all = new Map<string, Awaited<ReturnType<typeof rulesFor>>>();
  for (const choice of choices(names)) all.set(choice.join(), await rulesFor(choice));
  const said = (choice: string[]) => {
    const rules = all.get(choice.join());
    return JSON.stringify([rules?.first, rules?.last]);
  };
  const decides = (name: string) =>
    choices(names).some((choice) => said(choice) !== said(choice.filter((other) => other !== name)));
  const deciding = names.filter(decides);
  return { deciding, rules: choices(deciding).map((choice) => all.get(choice.join())) };
}

/** Returns the text around the list of skills, by the tool that reads them. */
async function skills(names: string[]) {
  const skill = { name: MARK, description: MARK, filePath: MARK, baseDir: NOWHERE, disableModelInvocation: false };
  const found: Record<string, { before: string; after: string }> = {};
  for (const name of names) {
    const text = section(await prompt({ selectedTools: [name], skills: [skill as never] }), "skills");
    if (text === undefined) continue;
    const [open, close] = ["  <skill>\n", "  </skill>\n"];
    const list = text.slice(text.indexOf(open), text.lastIndexOf(close) + close.length);
    found[name] = around(text, list);
  }
  return found;
}

async function projectContext(): Promise<string> {
  const text = await sectionOf({ contextFiles: [{ path: MARK, content: MARK }] }, "project_context");
  return around(text, "\n\n<project_instructions ").before;
}

async function preamble(): Promise<string> {
  const text = await prompt({});
  return text.slice(0, text.indexOf("\n\n<"));
}

/** Returns the description of a tool as sent to the model. */
function described(tool: ToolDefinition) {
  return {
    description: tool.description,
    snippet: tool.promptSnippet ?? "",
    guidelines: tool.promptGuidelines ?? [],
    parameters: JSON.parse(JSON.stringify(tool.parameters)),
    ...(tool.constrainedSampling === undefined ? {} : { constrainedSampling: tool.constrainedSampling }),
  };
}

/** Captures pi's request to a model, which answers with a mark. */
async function asked(ask: (model: never, stream: never) => Promise<unknown>): Promise<{ system: string; prompt: string }> {
  let seen: any;
  const stream = async (_model: unknown, context: unknown) => {
    seen = context;
    const message = { role: "assistant", content: [{ type: "text", text: MARK }], stopReason: "stop", usage: {} };
    return { result: async () => message };
  };
  const model = { id: MARK, provider: MARK, api: MARK, maxTokens: 0, contextWindow: 0, reasoning: false };
  await ask(model as never, stream as never);
  const textOf = (content: any): string => (typeof content === "string" ? content : content.map((block: any) => block.text ?? "").join(""));
  const first = seen.messages.find((message: any) => message.role === "system");
  const prompt = seen.messages.find((message: any) => message.role === "user");
  const system = seen.systemPrompt ?? first?.content;
  if (system === undefined || prompt === undefined) throw new Error("pi asked for a summary in a form that is not known");
  return { system: textOf(system), prompt: textOf(prompt.content) };
}

/** Returns the text after the last of these marks. */
function behind(text: string, mark: string): string {
  const at = text.lastIndexOf(mark);
  if (at < 0) throw new Error(`${JSON.stringify(mark)} does not stand in ${JSON.stringify(text)}`);
  return text.slice(at + mark.length);
}

async function summaries() {
  const nobody = undefined as never;
  const said = [{ role: "user", content: [{ type: "text", text: MARK }], timestamp: 0 }] as never;
  const files = { read: new Set(), written: new Set(), edited: new Set() };
  const of = (previous: string | undefined) =>
    asked((model, stream) => generateSummary(said, model, 1, nobody, nobody, nobody, nobody, previous, nobody, stream));
  const whole = await of(undefined);
  const split = {
    firstKeptEntryId: MARK, messagesToSummarize: [], turnPrefixMessages: said, isSplitTurn: true, tokensBefore: 0, fileOps: files,
    settings: { enabled: true, reserveTokens: 1, keepRecentTokens: 1 },
  };
  const turn = await asked((model, stream) => compact(split as never, model, nobody, nobody, nobody, nobody, nobody, stream));
  let left: any;
  const branch = await asked(async (model, stream) => {
    const entry = { type: "message", id: MARK, parentId: null, timestamp: "", message: (said as any)[0] };
    left = await generateBranchSummary([entry] as never, { model, streamFn: stream, reserveTokens: 0 } as never);
  });
  return {
    system: whole.system,
    form: behind(whole.prompt, "</conversation>\n\n"),
    update: behind((await of(MARK)).prompt, "</previous-summary>\n\n"),
    turn: behind(turn.prompt, "# Instructions\n"),
    branch: behind(branch.prompt, "</conversation>\n\n"),
    branchHead: around(left.summary, MARK).before,
  };
}

async function words(here: string[]) {
  const definitions = [
    createReadToolDefinition,
    createBashToolDefinition,
    createPowerShellToolDefinition,
    createEditToolDefinition,
    createWriteToolDefinition,
    createGrepToolDefinition,
    createFindToolDefinition,
    createLsToolDefinition,
  ].map((define) => define(NOWHERE) as unknown as ToolDefinition);
  const names = definitions.map((tool) => tool.name);
  return {
    preamble: await preamble(),
    toolList: await toolList(),
    ...(await rules(names)),
    docs: (await sectionOf({}, "docs")).split(getPackageDir()),
    skills: await skills(names),
    projectContext: await projectContext(),
    summaries: await summaries(),
    tools: Object.fromEntries(
      definitions.filter((tool) => here.includes(tool.name)).map((tool) => [tool.name, described(tool)]),
    ),
  };
}

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "words",
    label: "words",
    description: "The words of pi's prompt and tools",
    parameters: { type: "object" } as never,
    execute: async (_id, input: { here: string[] }) => ({ content: [], details: await words(input.here) }),
  });
}
