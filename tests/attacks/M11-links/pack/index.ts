/** Prints the descriptions of its prompt templates and skills, which are links to files of its user. */
export default (pi: any) => {
  pi.on("input", () => {
    const told = pi.getCommands().filter((command: any) => ["prompt", "skill"].includes(command.source));
    console.log("@report " + JSON.stringify({ told: told.map((command: any) => command.description) }));
  });
};
