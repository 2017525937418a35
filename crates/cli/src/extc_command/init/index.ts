import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerTool({
    name: "count_words",
    label: "Count words",
    description: "Counts the words of a text.",
    parameters: {
      type: "object",
      properties: { text: { type: "string", description: "The text" } },
      required: ["text"],
    } as const,
    async execute(_id, { text }) {
      const count = text.split(/\s+/).filter(Boolean).length;
      return { content: [{ type: "text", text: `${count} words` }], details: { count } };
    },
  });

  // Called with each piece of a reply before the user, the session or another listener sees it.
  pi.on("stream_text", ({ accumulated }) => {
    if (!accumulated.includes("TODO")) return undefined;
    return { abort: true, retry: { content: "Finish the work; leave no TODO." } };
  });
}
