/**
 * `pi:pi/transcript`: converts the content of a request between the two forms of pi-ai.
 *
 * A context has its prompt and tools as separate members, or as system messages; later system messages override earlier
 * ones. Stream functions receive the second form, the host the first.
 *
 * ```text
 * {systemPrompt: "S", tools: [t], messages: [u]}   ⇄   {messages: [{role: "system", content: "S", toolsAdded: [t]}, u]}
 * ```
 */

type Message = Record<string, any>;

export interface Context {
  systemPrompt?: string | undefined;
  tools?: Message[] | undefined;
  messages: Message[];
}

const isSystem = (message: Message): boolean => message?.role === "system";

/** Converts prompt and tools to a leading system message. */
export function withSystemMessage(context: Context): { messages: Message[] } {
  const { systemPrompt, tools, messages } = context;
  const hasTools = tools !== undefined && tools.length > 0;
  if (!systemPrompt && !hasTools) return { messages };
  const head = { role: "system", content: systemPrompt ?? "", ...(hasTools ? { toolsAdded: tools } : {}), timestamp: 0 };
  return { messages: [head, ...messages] };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

/** Returns the prompt and tools after the last system message, and the other messages. */
export function withoutSystemMessages(context: Context): Required<Context> {
  const { messages } = withSystemMessage(context);
  const said: string[] = [];
  const sections = new Map<string, string>();
  const tools = new Map<string, Message>();
  for (const message of messages.filter(isSystem)) {
    const text = textOf(message.content);
    if (text !== "") said.push(text);
    for (const [name, section] of Object.entries<string | null>(message.sections ?? {})) {
      if (section === null) sections.delete(name);
      else sections.set(name, section);
    }
    for (const tool of message.toolsRemoved ?? []) tools.delete(tool.name);
    for (const tool of message.toolsAdded ?? []) tools.set(tool.name, tool);
  }
  const parts = [said.join("\n\n"), ...sections.values()];
  return {
    systemPrompt: parts.filter((part) => part !== "").join("\n\n"),
    tools: [...tools.values()].map(({ name, description, parameters }) => ({ name, description, parameters })),
    messages: messages.filter((message) => !isSystem(message)),
  };
}
