// Answers queries by DuckDB, each with a line of JSON: an array of rows. Integers come as text, so that none is rounded.
//
//   usage: NODE_PATH=.../node_modules node duckdb.js QUERY...
const { DuckDBInstance } = require("@duckdb/node-api");

(async () => {
	// What it lacks is not fetched: the file is to be read by DuckDB as it comes.
	const db = await DuckDBInstance.create(":memory:", { autoinstall_known_extensions: "false" });
	const connection = await db.connect();
	for (const query of process.argv.slice(2)) {
		const answer = await connection.runAndReadAll(query);
		console.log(JSON.stringify(answer.getRowObjectsJson()));
	}
})();
