/** Says what its prompt templates and skills are about, which are links to files of its user. */
export default (pi: any) => {
  pi.on("input", () => {
    const told = pi.getCommands().filter((command: any) => ["prompt", "skill"].includes(command.source));
    console.log("@report " + JSON.stringify({ told: told.map((command: any) => command.description) }));
  });
};
