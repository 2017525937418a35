// Errors of JSON.parse and JSON.stringify, which extensions show to their users.
const message = (run) => {
  try {
    return run();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

const texts = [
  "", "  ", "{", "[", '{"a"', '{"a":', '{"a":1', '{"a":1,', "[1", "[1,", "[1,]", "{bad", "{'a':1}", '{"a" 1}', '{"a":1}}', '{"a":1} x', "nul", "tru", "01", "1.", "1e", "-", '"open', '"\\x"', '"\\u12"', '"a\tb"',
  "undefined", "NaN", "[object Object]", "<!DOCTYPE html><html></html>", "// a comment\n{}", '{\n  "name": "x",\n  "list": [1 2]\n}', '{"long": "enough to be cut", "then": oops, "and": "more of it"}', "[1,2,3,4,5,6,7,8,9,10,11,,12]", '"a" "b"', "{1:2}", "é",
];
for (const text of texts) console.log(JSON.stringify(text), message(() => JSON.parse(text)));
console.log(message(() => JSON.parse(undefined)), message(() => JSON.parse({})), message(() => JSON.parse(null)));
console.log(message(() => JSON.parse('{"a":1}', () => { throw new SyntaxError("from the reviver"); })));
console.log(JSON.parse('{"a":[1,{"b":2}]}', (key, value) => (typeof value === "number" ? value + 1 : value)), JSON.parse.name, JSON.parse.length, JSON.stringify.length);

class Node {
  constructor() { this.self = this; }
}
const ring = { first: {} };
ring.first.second = { third: { fourth: { fifth: ring } } };
const list = [{ up: undefined }];
list[0].up = list;
const shared = { n: 1 };
for (const value of [new Node(), ring, { list }, { a: 1n }, [shared, shared, { shared }]]) console.log(message(() => JSON.stringify(value)));
console.log(message(() => JSON.stringify({ toJSON() { throw new TypeError("mine"); } })), JSON.stringify({ a: [1, undefined, () => 1] }, null, 1));
