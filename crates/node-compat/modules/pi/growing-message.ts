/**
 * `pi:pi/growing-message`: a partial message, assembled from its updates.
 *
 * A reply has thousands of updates, and each `message_update` has the whole message. The host sends the message once and
 * then only changes, so that the work is linear in the length of a reply. Objects that a handler received do not change: a
 * growing block is replaced by another object.
 */

type Block = Record<string, any>;
type Message = Record<string, any> & { content: Block[] };

interface Update {
  message?: Message;
  assistantMessageEvent: { type: string; contentIndex: number; delta?: string };
  $grows?: { number: number; head?: Record<string, any>; block?: Block };
}

/** Members that grow by the delta of an event. */
const GROWING: Record<string, string> = { text_delta: "text", thinking_delta: "thinking" };

let message: Message | undefined;
/** Number of the update that was applied last. */
let known = 0;

/** Returns an event's members in pi's form. */
export function grown(update: Update): Record<string, unknown> {
  const { $grows: grows, ...members } = update;
  if (grows === undefined) return members;
  // Several handlers receive the same update, which is applied once.
  if (grows.number !== known) {
    message = update.message ?? next(grows.number === known + 1 ? (message?.content ?? []) : [], update);
    known = grows.number;
  }
  return { message, assistantMessageEvent: { ...update.assistantMessageEvent, partial: { ...message } } };
}

function next(content: readonly Block[], { assistantMessageEvent: event, $grows: grows }: Update): Message {
  const blocks = [...content];
  const { contentIndex: at } = event;
  const member = GROWING[event.type];
  const before = blocks[at];
  if (grows!.block !== undefined) blocks[at] = grows!.block;
  else if (member !== undefined && before !== undefined) blocks[at] = { ...before, [member]: before[member] + event.delta };
  return { ...grows!.head, content: blocks };
}
