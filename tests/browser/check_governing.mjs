// Runs recorded decisions against the page's governing.js: in Node.js (arguments: folder of the page, cases), or in a browser.

export function differences(governing, { runs }) {
  const found = [];
  let decided = 0;
  for (const { policy, table, points, knob, situations, decisions } of runs) {
    if (table) for (const wrong of unequal(governing.lineOf(points), table.latency_ms)) found.push({ points, ...wrong });
    let previous = governing.start(knob);
    situations.forEach((situation, place) => {
      previous = governing.decide(policy, situation, previous, table);
      decided += 1;
      for (const wrong of unequal(previous, decisions[place])) found.push({ place, situation, policy, ...wrong });
    });
  }
  return { decided, found: found.slice(0, 5) };
}

function unequal(got, wanted, path = "") {
  if (got !== null && typeof got === "object") {
    const names = [...new Set([...Object.keys(got), ...Object.keys(wanted)])];
    return names.flatMap((name) => unequal(got[name], wanted[name], `${path}.${name}`));
  }
  return got === wanted ? [] : [{ path, got, wanted }];
}

if (globalThis.process?.argv?.[1]?.endsWith("check_governing.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [folder, path] = process.argv.slice(2);
  const governing = await import(pathToFileURL(`${folder}/governing.js`));
  console.log(JSON.stringify(differences(governing, JSON.parse(readFileSync(path, "utf-8")))));
}
