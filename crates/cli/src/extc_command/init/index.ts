import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

/** The event that PiJS adds: each piece of a reply comes here before anybody sees it. */
type Verdict = { abort: true; retry?: { content: string } };
type StreamText = { on(event: "stream_text", handler: (event: { accumulated: string }) => Verdict | undefined): void };

export default function (pi: ExtensionAPI & StreamText) {
  pi.registerTool({
    name: "count_words",
    label: "Count words",
    description: "Counts the words of a text.",
    parameters: {
      type: "object",
      properties: { text: { type: "string", description: "The text" } },
      required: ["text"],
    },
    async execute(_id: string, { text }: { text: string }) {
      const count = text.split(/\s+/).filter(Boolean).length;
      return { content: [{ type: "text", text: `${count} words` }], details: { count } };
    },
  });

  pi.on("stream_text", ({ accumulated }) => {
    if (!accumulated.includes("TODO")) return undefined;
    return { abort: true, retry: { content: "Finish the work; leave no TODO." } };
  });
}
