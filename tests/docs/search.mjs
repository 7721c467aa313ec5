// Prints, as JSON, the titles that the built site's search finds for a query, the best first.

import { readFileSync } from "node:fs";
import vm from "node:vm";

const [folder, query] = process.argv.slice(2);
const page = vm.createContext({
  document: { getElementById: () => null },
  location: { search: `?${new URLSearchParams({ q: query })}` },
  URLSearchParams,
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
});
page.window = page;
const scripts = ["base-stemmer", "english-stemmer", "language_data", "searchtools"];
for (const name of [...scripts.map((script) => `_static/${script}.js`), "searchindex.js"]) {
  vm.runInContext(readFileSync(`${folder}/${name}`, "utf-8"), page, { filename: name });
}
page.query = query;
const found = vm.runInContext("Search._performSearch(...Search._parseQuery(query))", page);
console.log(JSON.stringify(found.reverse().map(([, title]) => title)));
