// Each is as large as a tool may be, and consists almost only of values.
export default (pi: any) => {
  let number = 0;
  const register = () => {
    for (let count = 0; count < 6; count++) {
      pi.registerTool({
        name: `t${number++}`,
        label: "t",
        description: "d",
        parameters: { type: "object", properties: { a: { enum: new Array(120_000).fill(0) } } },
        execute: async () => ({ content: [] }),
      });
    }
  };
  for (const event of ["session_start", "before_agent_start", "agent_start", "turn_start"]) pi.on(event, register);
};
