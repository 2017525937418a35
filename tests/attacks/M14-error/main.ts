const long = "y".repeat(2 << 20);
export default (pi: any) => {
  pi.registerTool({
    name: "boom",
    label: "boom",
    description: "fails",
    parameters: { type: "object", properties: {} },
    execute: async () => {
      throw new Error(long);
    },
  });
  pi.on("session_start", () => {
    console.log(long);
    Promise.reject(new Error(long));
    throw new Error(long);
  });
};
