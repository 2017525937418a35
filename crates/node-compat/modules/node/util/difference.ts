/** `pi:node/util/difference`: the shortest edit script between two lists (Myers, 1986), for `util.diff`. */

export const ONLY_EXPECTED = -1;
export const SAME = 0;
export const ONLY_ACTUAL = 1;
export type Step = [operation: number, value: string];

/** Returns the edit script. `isSame` may be looser than equality; of an equal pair, `pick` returns the entry to report. */
export function difference(
  actual: readonly string[],
  expected: readonly string[],
  isSame: (left: string, right: string) => boolean = (left, right) => left === right,
  pick: (left: string, right: string) => string = (left) => left,
): Step[] {
  const most = actual.length + expected.length;
  // The position in `actual` that each diagonal has reached, before each level.
  const reach = new Int32Array(2 * most + 3);
  const at = (diagonal: number) => diagonal + most + 1;
  const isDown = (diagonal: number, level: number, reached: Int32Array) =>
    diagonal === -level || (diagonal !== level && reached[at(diagonal - 1)]! < reached[at(diagonal + 1)]!);
  const levels: Int32Array[] = [];
  for (let level = 0; level <= most; level++) {
    levels.push(reach.slice());
    for (let diagonal = -level; diagonal <= level; diagonal += 2) {
      let x = isDown(diagonal, level, reach) ? reach[at(diagonal + 1)]! : reach[at(diagonal - 1)]! + 1;
      while (x < actual.length && x - diagonal < expected.length && isSame(actual[x]!, expected[x - diagonal]!)) x++;
      reach[at(diagonal)] = x;
      if (x >= actual.length && x - diagonal >= expected.length) return walkBack(levels, level);
    }
  }
  return [];

  /** Returns the steps of the path, found from its end. */
  function walkBack(reached: Int32Array[], last: number): Step[] {
    const steps: Step[] = [];
    let [x, y] = [actual.length, expected.length];
    for (let level = last; level >= 0; level--) {
      const before = reached[level]!;
      const down = isDown(x - y, level, before);
      const diagonal = down ? x - y + 1 : x - y - 1;
      const fromX = level === 0 ? 0 : before[at(diagonal)]!;
      const fromY = level === 0 ? 0 : fromX - diagonal;
      while (x > fromX && y > fromY) {
        x--;
        y--;
        steps.push([SAME, pick(actual[x]!, expected[y]!)]);
      }
      if (level === 0) break;
      if (down) steps.push([ONLY_EXPECTED, expected[--y]!]);
      else steps.push([ONLY_ACTUAL, actual[--x]!]);
    }
    return steps.reverse();
  }
}
