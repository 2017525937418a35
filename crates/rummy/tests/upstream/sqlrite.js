// `@possumtech/sqlrite` for upstream's tests. The test provides the databases, with the SQL of the checkout.

import { entries, statement } from "rummy:host";

export default class SqlRite {
	static async open({ path }) {
		const { id, names } = (await entries("open", [path])).value;
		const db = { close: async () => void (await entries("close", [id])) };
		for (const name of names) {
			const op = (kind) => (params = {}) => statement(`${id} ${name}`, kind, params);
			db[name] = { run: op("run"), get: op("get"), all: op("all") };
		}
		return db;
	}
}
