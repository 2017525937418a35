// A minimal `node:test` for upstream's tests: suites, hooks, and tests in the order of declaration.

const suite = (name, parent) => ({ name, parent, before: [], after: [], beforeEach: [], afterEach: [], members: [], failed: null });

let root = suite("", null);
let current = root;

export function describe(name, ...rest) {
	const body = rest.at(-1);
	const made = suite(name, current);
	current.members.push({ suite: made });
	current = made;
	try {
		body();
	} catch (error) {
		made.failed = error;
	} finally {
		current = made.parent;
	}
}

export function it(name, ...rest) {
	const options = typeof rest[0] === "object" ? rest[0] : {};
	const body = rest.findLast((one) => typeof one === "function");
	current.members.push({ test: { name, body, skip: options.skip === true || body === undefined } });
}

it.skip = (name) => it(name, { skip: true });
describe.skip = () => {};

export const test = it;
export const before = (body) => void current.before.push(body);
export const after = (body) => void current.after.push(body);
export const beforeEach = (body) => void current.beforeEach.push(body);
export const afterEach = (body) => void current.afterEach.push(body);
export default it;

const messageOf = (error) => String(error?.message ?? error).split("\n").slice(0, 4).join(" ");

async function attempt(bodies) {
	try {
		for (const body of bodies) await body({});
		return null;
	} catch (error) {
		return error ?? new Error("nothing was thrown");
	}
}

const above = (of, kind) => (of === null ? [] : [...above(of.parent, kind), ...of[kind]]);

async function runSuite(of, path, failed, results) {
	const broken = failed ?? of.failed ?? (await attempt(of.before));
	for (const member of of.members) {
		if (member.suite) {
			await runSuite(member.suite, [...path, member.suite.name], broken, results);
			continue;
		}
		const { name, body, skip } = member.test;
		const error = skip ? null : (broken ?? (await attempt([...above(of, "beforeEach"), body, ...above(of, "afterEach")])));
		results.push({ name: [...path, name].join(" > "), skipped: skip, error: error === null ? null : messageOf(error) });
	}
	await attempt(of.after);
}

/** Imports a file of tests and runs the declared tests. */
export async function runFile(load) {
	root = suite("", null);
	current = root;
	const results = [];
	try {
		await load();
	} catch (error) {
		return [{ name: "import", skipped: false, error: messageOf(error) }];
	}
	await runSuite(root, [], null, results);
	return results;
}
