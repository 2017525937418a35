/**
 * Writes down the words of pi's system prompt and of its built-in tools, by running pi's own code with marks in the
 * place of what a session fills in.
 *
 * The prompt is looked at where every extension sees it: in a `before_agent_start` handler. What the tool `words`
 * answers has the shape of `Words` in `pijs_agent`; its input names the tools that there are here.
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
  ExtensionRunner,
  getPackageDir,
} from "@earendil-works/pi-coding-agent";

/** Stands for what a session fills in; no text of pi contains it. */
const MARK = "\u0001";
const NOWHERE = "/";

type Options = Partial<BuildSystemPromptOptions>;

/** The whole prompt that pi makes of these options. */
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

/** What stands in a section; `undefined` when there is none. */
function section(text: string, name: string): string | undefined {
  const [open, close] = [`\n\n<${name}>\n`, `\n</${name}>`];
  const from = text.indexOf(open);
  const to = text.indexOf(close, from);
  return from < 0 || to < 0 ? undefined : text.slice(from + open.length, to);
}

/** A section that has to be there. */
async function sectionOf(options: Options, name: string): Promise<string> {
  const found = section(await prompt(options), name);
  if (found === undefined) throw new Error(`pi's prompt has no section ${name}`);
  return found;
}

/** What stands around something that occurs once. */
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

/** The rules before and after those of tools, when these tools are there. */
async function rulesFor(tools: string[]) {
  const options = { selectedTools: [...tools, MARK], toolGuidelines: { [MARK]: [MARK] } };
  const rules = (await sectionOf(options, "rules")).slice("- ".length).split("\n- ");
  const at = rules.indexOf(MARK);
  if (at < 0) throw new Error("pi's prompt does not show the rule of a tool");
  return { tools, first: rules.slice(0, at), last: rules.slice(at + 1) };
}

/** All choices among names, each in the order of the names. */
function choices(names: string[]): string[][] {
  return names.reduce<string[][]>((all, name) => [...all, ...all.map((choice) => [...choice, name])], [[]]);
}

/** The tools whose presence makes a difference to the rules, and the rules of each choice among them. */
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

/** What stands around the list of skills, by the tool that reads them. */
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

/** As the model is told of it. */
function described(tool: ToolDefinition) {
  return {
    description: tool.description,
    snippet: tool.promptSnippet ?? "",
    guidelines: tool.promptGuidelines ?? [],
    parameters: JSON.parse(JSON.stringify(tool.parameters)),
    ...(tool.constrainedSampling === undefined ? {} : { constrainedSampling: tool.constrainedSampling }),
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
