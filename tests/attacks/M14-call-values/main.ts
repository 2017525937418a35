export default (pi: any) => {
  for (const event of ["message_end", "turn_end", "agent_end", "tool_call"]) pi.on(event, () => undefined);
};
