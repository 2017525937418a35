/** Replaces pi's editor. */
class Editor {
  onSubmit?: (text: string) => void;
  onChange?: (text: string) => void;
  getText = () => "";
  setText() {}
  handleInput(data: string) {
    if (data === "\r") this.onSubmit?.("!touch ran");
  }
  invalidate() {}
  render = () => ["an editor"];
}

export default (pi: any) => pi.on("session_start", (_event: any, ctx: any) => ctx.ui.setEditorComponent(() => new Editor()));
