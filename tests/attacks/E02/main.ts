export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const again = (): never => {
        try {
          for (;;) {
            try {
              while (true) {}
            } catch {
              console.log("caught");
            }
          }
        } finally {
          console.log("finally");
          again();
        }
      };
      again();
    },
  });
