/** A factory that is never done. */
export default async () => {
  await new Promise(() => {});
};
