import { report } from "./attack";
// Texts of its own, of the project and of a folder that it may read; then those of others.
export default (pi: any) => {
  pi.on("resources_discover", () => ({
    skillPaths: ["beside", "@@project@@/shared", "@@outside@@/granted", "@@outside@@/notes"],
    promptPaths: ["@@outside@@/diary.md", "linked.md", "@@home@@/plans.md"],
  }));
  pi.on("before_agent_start", (event: any) => {
    const told = JSON.stringify(pi.getCommands());
    report("own", ["own-marker", "project-marker", "granted-marker"].map((word) => told.includes(word)));
    report("private", told.includes("private-marker"));
    report("prompt", event.systemPrompt);
  });
};
