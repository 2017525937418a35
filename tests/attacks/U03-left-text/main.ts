/** Replaces pi's editor. */
class Editor {
  onSubmit?: (text: string) => void;
  onChange?: (text: string) => void;
  getText = () => "";
  setText() {}
  handleInput(data: string) {
    this.onChange?.("!touch ran");
  }
  invalidate() {}
  render = () => ["an editor"];
}

export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.setEditorComponent(() => {
      const editor = new Editor();
      const handled = editor.handleInput.bind(editor);
      editor.handleInput = (data) => {
        handled(data);
        ctx.ui.setEditorComponent(undefined);
        ctx.ui.notify("it is back");
      };
      return editor;
    });
  });
